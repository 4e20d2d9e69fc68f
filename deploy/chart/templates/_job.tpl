{{/*
A Job of a hook with an account of its own, whose rights end with it. Takes a dict:
  root     the chart
  name     what it does: keys, cleanup
  hook     when
  rules    its rights, as YAML
  cluster  whether they are rights on the whole cluster
  args     words of the console command
*/}}
{{- define "slicewire.job" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $name := printf "%s-%s" (include "slicewire.fullname" $root) .name -}}
{{- $prefix := ternary "Cluster" "" .cluster -}}
{{- $role := ternary (printf "%s-%s" (include "slicewire.clusterName" $root) .name) $name .cluster -}}
{{- $labels := include "slicewire.labels" (list $root .name) -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- include "slicewire.hook" (list .hook -10) | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $prefix }}Role
metadata:
  name: {{ $role }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- include "slicewire.hook" (list .hook -10) | nindent 4 }}
rules:
{{ .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $prefix }}RoleBinding
metadata:
  name: {{ $role }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- include "slicewire.hook" (list .hook -9) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $prefix }}Role
  name: {{ $role }}
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- include "slicewire.hook" (list .hook 0) | nindent 4 }}
spec:
  backoffLimit: 3
  activeDeadlineSeconds: 300
  template:
    metadata:
      {{- include "slicewire.podMetadata" (dict "root" $root "part" .name) | nindent 6 }}
    spec:
      serviceAccountName: {{ $name }}
      restartPolicy: Never
      enableServiceLinks: false
      {{- include "slicewire.pullSecrets" $root | nindent 6 }}
      nodeSelector:
        {{- include "slicewire.controllerNodes" $root | nindent 8 }}
      tolerations:
      # A node that is cordoned may be the only one, and its cordon be what is to be lifted.
      - {key: node.kubernetes.io/unschedulable, operator: Exists, effect: NoSchedule}
      {{- with $values.controller.tolerations }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
      containers:
      - name: {{ .name }}
        image: {{ include "slicewire.image" (list $root "cluster") | quote }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        args:
        {{- toYaml .args | nindent 8 }}
        resources:
          requests: {cpu: 10m, memory: 64Mi}
          limits: {memory: 256Mi}
        securityContext:
          {{- include "slicewire.locked" $root | nindent 10 }}
        volumeMounts:
        - name: tmp
          mountPath: /tmp
      volumes:
      - name: tmp
        emptyDir:
          sizeLimit: 16Mi
{{- end -}}

{{/* Annotations of a hook. Takes (hook, weight). */}}
{{- define "slicewire.hook" -}}
helm.sh/hook: {{ index . 0 }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
