{{/* The controller's settings from values: the same as services/reconfigurer/controller/values.py. */}}
{{- define "slicewire.controllerEnv" -}}
{{- $settings := list
    (list "CONFIG_MAP" .Values.sharing.configMap.name)
    (list "CONFIG_LABEL" .Values.sharing.label)
    (list "DEFAULT_KEY" .Values.sharing.defaultKey)
    (list "SELECTION_RULES" (.Values.sharing.rules | default list | toJson))
    (list "MIG_STRATEGY" .Values.sharing.migStrategy)
    (list "ALLOCATION_POLICY" .Values.sharing.allocationPolicy)
    (list "MIG_CONFIG_MAP" .Values.mig.configMap.name)
    (list "MIG_DEFAULT" .Values.mig.default)
    (list "MIG_MAX_UNAVAILABLE" (toString .Values.mig.maxUnavailable))
    (list "MIG_REBOOT" (toString .Values.mig.reboot))
    (list "MIG_DRIFT" .Values.mig.drift)
    (list "DRAIN_CORDON" .Values.drain.cordon)
    (list "DRAIN_TIMEOUT_SECONDS" (toString .Values.drain.timeoutSeconds))
    (list "DRAIN_BARE_PODS" .Values.drain.barePods)
    (list "DRAIN_DAEMON_SET_PODS" .Values.drain.daemonSetPods)
    (list "WAITING_EVENT_SECONDS" (toString .Values.waiting.eventAfterSeconds))
    (list "LEASE_SECONDS" (toString .Values.controller.leaseSeconds)) -}}
{{- range $settings }}
{{- if index . 1 }}
- name: SLICEWIRE_{{ index . 0 }}
  value: {{ index . 1 | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Which service account has which role on the bus, as JSON. */}}
{{- define "slicewire.busAccounts" -}}
{{- $accounts := dict -}}
{{- range $part := list "advertiser" "allocator" "agent" -}}
{{- $account := printf "%s:%s-%s" $.Release.Namespace (include "slicewire.fullname" $) $part -}}
{{- $_ := set $accounts $account $part -}}
{{- end -}}
{{- toJson $accounts -}}
{{- end -}}

{{/* On which nodes what is no node service runs. */}}
{{- define "slicewire.controllerNodes" -}}
{{- merge (dict "kubernetes.io/os" "linux") (.Values.controller.selector | default dict) | toYaml -}}
{{- end -}}
