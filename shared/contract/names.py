"""Names on Kubernetes objects that other programs see: labels, annotations, conditions, Events."""

from __future__ import annotations

# Input labels, NVIDIA's.
CONFIG_LABEL = "nvidia.com/device-plugin.config"
MIG_CONFIG_LABEL = "nvidia.com/mig.config"

# Output labels, GPU Feature Discovery's.
PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
STRATEGY_LABEL = "nvidia.com/gpu.sharing-strategy"
MEMORY_LABEL = "nvidia.com/gpu.memory"

# Our annotations on nodes: what must outlive every store and process.
GENERATION_ANNOTATION = "slicewire.io/generation"  # newest generation wanted of the node
LABELS_GENERATION_ANNOTATION = "slicewire.io/labels-generation"  # generation the labels show

# Kubernetes objects that are ours.
LEASE = "slicewire-controller"
COMPONENT = "slicewire"

# Event reasons.
CONFIG_APPLIED = "ConfigApplied"
CONFIG_REFUSED = "ConfigRefused"
CONFIG_NOT_FOUND = "ConfigNotFound"
CONFIG_NOT_SELECTED = "ConfigNotSelected"
GPU_UNHEALTHY = "GpuUnhealthy"
GPU_RECOVERED = "GpuRecovered"
RESOURCE_TAKEN_OVER = "ResourceTakenOver"
