"""Names on Kubernetes objects that other programs see: labels, annotations, conditions, Events."""

from __future__ import annotations

# Input labels, NVIDIA's.
CONFIG_LABEL = "nvidia.com/device-plugin.config"
MIG_CONFIG_LABEL = "nvidia.com/mig.config"

# The GPU Operator runs a component where its label is "true", and not while it is paused.
COMPONENT_LABELS = "nvidia.com/gpu.deploy."
PAUSED = "paused-for-mig-change"

# Output labels: the answer to `nvidia.com/mig.config`, with the values of NVIDIA's mig-manager.
MIG_STATE_LABEL = "nvidia.com/mig.config.state"

# Output labels, GPU Feature Discovery's.
PRODUCT_LABEL = "nvidia.com/gpu.product"
COUNT_LABEL = "nvidia.com/gpu.count"
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
STRATEGY_LABEL = "nvidia.com/gpu.sharing-strategy"
MEMORY_LABEL = "nvidia.com/gpu.memory"

# Our annotations on nodes: what must outlive every store and process.
ANNOTATIONS = "slicewire.io/"  # what they all begin with
GENERATION_ANNOTATION = "slicewire.io/generation"  # newest generation wanted of the node
LABELS_GENERATION_ANNOTATION = "slicewire.io/labels-generation"  # generation the labels show
MIG_REASON_ANNOTATION = "slicewire.io/mig-config-reason"  # why mig.config.state is what it is
MIG_GENERATION_ANNOTATION = "slicewire.io/mig-config-generation"  # which it speaks of
CORDON_ANNOTATION = "slicewire.io/cordoned-for"  # the cordon is ours, for this generation
PAUSED_ANNOTATION = "slicewire.io/paused-components"  # former values of component labels, JSON
EVICTED_ANNOTATION = "slicewire.io/evicted"  # pods evicted for the change, with their UIDs, JSON
CLEAR_HEALTH_ANNOTATION = "slicewire.io/clear-health"  # an operator's: a new text ends verdicts
CONDITIONS_ANNOTATION = "slicewire.io/conditions"  # marks of the node conditions that stand, JSON

# Our conditions on nodes.
CONFIGURED_CONDITION = "SlicewireConfigured"  # the sharing text
MIG_CONFIGURED_CONDITION = "SlicewireMigConfigured"  # the MIG layout

# Kubernetes objects that are ours.
LEASE = "slicewire-controller"
COMPONENT = "slicewire"
BUS_AUDIENCE = "slicewire-bus"  # of the tokens that node services show on the bus

# Event reasons.
CONFIG_APPLIED = "ConfigApplied"
CONFIG_REFUSED = "ConfigRefused"
CONFIG_NOT_FOUND = "ConfigNotFound"
CONFIG_NOT_SELECTED = "ConfigNotSelected"
MIG_CONFIG_APPLIED = "MigConfigApplied"
MIG_CONFIG_FAILED = "MigConfigFailed"
MIG_REFUSED = "Refused"  # nobody could make the layout, and nobody was disturbed for it
POD_EVICTED = "EvictedForMigChange"
CAPACITY_DRIFT = "CapacityDrift"
GPU_UNHEALTHY = "GpuUnhealthy"
GPU_RECOVERED = "GpuRecovered"
MPS_DAEMON_DOWN = "MpsDaemonDown"
MPS_DAEMON_UP = "MpsDaemonUp"
GPU_MEMORY_OVER_USE = "GpuMemoryOverUse"
RESOURCE_TAKEN_OVER = "ResourceTakenOver"
