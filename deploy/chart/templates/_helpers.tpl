{{/* Name of everything in the release: the release's own, with the chart's where that says more. A
     Service's name begins with a letter and has no dots; names that are cut must still differ. */}}
{{- define "slicewire.fullname" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- if not (contains .Chart.Name $name) -}}
{{- $name = printf "%s-%s" $name .Chart.Name -}}
{{- end -}}
{{- if regexMatch "^[0-9]" $name -}}
{{- $name = printf "%s-%s" .Chart.Name $name -}}
{{- end -}}
{{- if gt (len $name) 40 -}}
{{- $name = printf "%s-%s" (trunc 31 $name | trimSuffix "-") (sha256sum .Release.Name | trunc 8) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* Name of what belongs to no namespace: releases of one name in two namespaces do not meet. */}}
{{- define "slicewire.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "slicewire.fullname" .) -}}
{{- end -}}

{{/* Labels that select one component's pods. Takes (root, component); never changes. */}}
{{- define "slicewire.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* All labels of an object. Takes (root, component). */}}
{{- define "slicewire.labels" -}}
{{- $root := index . 0 -}}
{{ include "slicewire.selector" . }}
app.kubernetes.io/part-of: slicewire
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Labels of an object with the user's own, which win. Takes (root, component, labels). */}}
{{- define "slicewire.labelsAnd" -}}
{{- $ours := list (index . 0) (index . 1) | include "slicewire.labels" | fromYaml -}}
{{- merge (dict) (index . 2 | default dict) $ours | toYaml -}}
{{- end -}}

{{/* Labels and annotations of a pod. Takes a dict: root, part, more (annotations). Its own labels
     select it, so they win over the user's. */}}
{{- define "slicewire.podMetadata" -}}
{{- $labels := list .root .part | include "slicewire.labels" | fromYaml -}}
labels:
  {{- merge (dict) $labels (.root.Values.podLabels | default dict) | toYaml | nindent 2 }}
{{- with merge (dict) (.more | default dict) (.root.Values.podAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* An image. Takes (root, "node" or "cluster"). */}}
{{- define "slicewire.image" -}}
{{- $root := index . 0 -}}
{{- $image := $root.Values.image -}}
{{- $digest := get $image.digests (index . 1) -}}
{{- printf "%s-%s:%s" $image.repository (index . 1) ($image.tag | default $root.Chart.AppVersion) -}}
{{- with $digest }}@{{ . }}{{ end -}}
{{- end -}}

{{- define "slicewire.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where the bus is. */}}
{{- define "slicewire.busUrl" -}}
{{- .Values.bus.url | default (printf "nats://%s-nats:4222" (include "slicewire.fullname" .)) -}}
{{- end -}}

{{/* The port of an address, a path behind it or not. Takes (address, the port where it has none). */}}
{{- define "slicewire.port" -}}
{{- $server := regexFind "//[^/]*" (index . 0) -}}
{{- regexFind ":[0-9]+$" $server | trimPrefix ":" | default (index . 1) -}}
{{- end -}}

{{/* The Secret with the keys of the chart's own NATS. */}}
{{- define "slicewire.keysSecret" -}}
{{- .Values.bus.keysSecret | default (printf "%s-bus" (include "slicewire.fullname" .)) -}}
{{- end -}}

{{/* What a process logs, and settings of one that talks to a collector. */}}
{{- define "slicewire.telemetry" -}}
- name: SLICEWIRE_LOG_LEVEL
  value: {{ .Values.logLevel | quote }}
{{- with .Values.telemetry.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Whether a process shows its metrics on its health port. */}}
{{- define "slicewire.metrics" -}}
- name: SLICEWIRE_METRICS
  value: {{ .Values.metrics.enabled | quote }}
{{- end -}}

{{/* Annotations of a pod by which a Prometheus without the operator finds it; none with one. */}}
{{- define "slicewire.scraped" -}}
{{- if and .Values.metrics.enabled (not .Values.metrics.podMonitor.enabled) -}}
prometheus.io/scrape: "true"
prometheus.io/port: "8081"
prometheus.io/path: /metrics
{{- end -}}
{{- end -}}

{{/* What a NetworkPolicy lets in to a process that is scraped: probes need no rule. */}}
{{- define "slicewire.scrapers" -}}
{{- if .Values.metrics.enabled }}
ingress:
- from:
  {{- toYaml .Values.metrics.scrapers | nindent 2 }}
  ports:
  - {port: health, protocol: TCP}
{{- end }}
{{- end -}}

{{/* What no container of ours needs. */}}
{{- define "slicewire.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The kubelet restarts a container whose loop hangs. */}}
{{- define "slicewire.liveness" -}}
ports:
- name: health
  containerPort: 8081
livenessProbe:
  httpGet:
    port: health
    path: /livez
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 3
startupProbe:
  httpGet:
    port: health
    path: /livez
  periodSeconds: 2
  failureThreshold: 60
{{- end -}}
