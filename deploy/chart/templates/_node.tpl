{{/*
One part of the node services as a ServiceAccount and a DaemonSet. Takes a dict:
  root       the chart
  part       advertiser, allocator, agent
  command    words of the console command that start it
  env        more variables (list)
  mounts     more folders of the node, as name: path (dict); `host` is mounted at /host,
             `log-links` for reading only
  security   the container's security context (text)
  hardware   whether it needs the driver's libraries, or the simulated ones
  hostPID    whether it sees the node's processes
Each part is a DaemonSet of its own, because the bus knows a service by its pod's account: in one
pod all parts would have the rights of each (docs/adr/0013).
*/}}
{{- define "slicewire.node" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $name := printf "%s-%s" (include "slicewire.fullname" $root) .part -}}
{{- $labels := list $root .part -}}
{{- $simulated := and .hardware $values.simulation.enabled -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels:
    {{- include "slicewire.labels" $labels | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ $name }}
  labels:
    {{- include "slicewire.labels" $labels | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- include "slicewire.selector" $labels | nindent 6 }}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      # The new pod waits for the old one's lock, so both may be there and one always serves.
      maxSurge: {{ $values.nodes.maxSurge }}
      maxUnavailable: 0
  minReadySeconds: 5
  template:
    metadata:
      {{- $scraped := include "slicewire.scraped" $root | fromYaml }}
      {{- include "slicewire.podMetadata" (dict "root" $root "part" .part "more" $scraped) | nindent 6 }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- if .hostPID }}
      hostPID: true
      {{- end }}
      {{- if and .hardware (not $simulated) }}
      {{- with $values.nodes.runtimeClassName }}
      runtimeClassName: {{ . | quote }}
      {{- end }}
      {{- end }}
      {{- include "slicewire.placement" $root | nindent 6 }}
      {{- include "slicewire.pullSecrets" $root | nindent 6 }}
      containers:
      - name: {{ .part }}
        image: {{ include "slicewire.image" (list $root "node") | quote }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        args:
        {{- if $simulated }}
        {{- toYaml (list "simulate" "--socket" "/run/slicewire/gpus.sock" "--") | nindent 8 }}
        {{- end }}
        {{- toYaml .command | nindent 8 }}
        env:
        - name: SLICEWIRE_NODE_NAME
          valueFrom:
            fieldRef:
              fieldPath: spec.nodeName
        - name: SLICEWIRE_HEALTH_PORT
          value: "8081"
        {{- include "slicewire.metrics" $root | nindent 8 }}
        - name: SLICEWIRE_BUS_URL
          value: {{ include "slicewire.busUrl" $root | quote }}
        {{- if $values.bus.url }}
        - name: SLICEWIRE_BUS_USER
          value: {{ .part }}
        - name: SLICEWIRE_BUS_PASSWORD_FILE
          value: /var/run/slicewire-bus/password
        {{- else }}
        - name: SLICEWIRE_BUS_TOKEN_FILE
          value: /var/run/slicewire-bus/token
        {{- end }}
        {{- if and .hardware (not $simulated) }}
        - name: NVIDIA_VISIBLE_DEVICES
          value: all
        - name: NVIDIA_DRIVER_CAPABILITIES
          value: utility
        {{- end }}
        {{- with .env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "slicewire.telemetry" $root | nindent 8 }}
        {{- include "slicewire.liveness" $root | nindent 8 }}
        resources:
          {{- toYaml (index $values .part).resources | nindent 10 }}
        securityContext:
          {{- .security | nindent 10 }}
        volumeMounts:
        - name: run
          mountPath: /run/slicewire
        - name: bus
          mountPath: /var/run/slicewire-bus
          readOnly: true
        - name: tmp
          mountPath: /tmp
        {{- range $mount, $path := .mounts }}
        - name: {{ $mount }}
          mountPath: {{ ternary "/host" $path (eq $mount "host") }}
          {{- if eq $mount "log-links" }}
          readOnly: true
          {{- end }}
        {{- end }}
      volumes:
      # Locks, by which an old and a new pod hand over, and the inventory that works without a bus.
      - name: run
        hostPath:
          path: /run/slicewire
          type: DirectoryOrCreate
      - name: tmp
        emptyDir:
          sizeLimit: 16Mi
      - name: bus
        {{- if $values.bus.url }}
        secret:
          secretName: {{ $values.bus.usersSecret | quote }}
          defaultMode: 0400
          items:
          - key: {{ .part }}
            path: password
        {{- else }}
        projected:
          sources:
          - serviceAccountToken:
              audience: {{ include "slicewire.audience" $root }}
              expirationSeconds: 3600
              path: token
        {{- end }}
      {{- range $mount, $path := .mounts }}
      - name: {{ $mount }}
        hostPath:
          path: {{ $path }}
          type: {{ ternary "DirectoryOrCreate" "Directory" (has $mount (list "state" "log-links")) }}
      {{- end }}
{{- end -}}

{{/* The audience of tokens for the bus: they are worth nothing at the API server. */}}
{{- define "slicewire.audience" -}}
slicewire-bus
{{- end -}}

{{/* On which nodes: those with a GPU, or, for simulated ones, those without. */}}
{{- define "slicewire.placement" -}}
{{- $nodes := .Values.nodes -}}
{{- with $nodes.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
nodeSelector:
  {{- merge (dict "kubernetes.io/os" "linux") ($nodes.selector | default dict) | toYaml | nindent 2 }}
{{- with $nodes.gpuLabels }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      {{- if $.Values.simulation.enabled }}
      - matchExpressions:
        {{- range . }}
        - {key: {{ . | quote }}, operator: NotIn, values: ["true"]}
        {{- end }}
      {{- else }}
      {{- range . }}
      - matchExpressions:
        - {key: {{ . | quote }}, operator: In, values: ["true"]}
      {{- end }}
      {{- end }}
{{- end }}
{{- with $nodes.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}
