{{- define "retryguard.labels" -}}
app.kubernetes.io/name: retryguard-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The configuration, with a Lease of the release's name where no election is written. */}}
{{- define "retryguard.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not (hasKey $config "leaderElection") -}}
{{- $_ := set $config "leaderElection" (dict "kubernetes" (dict "name" .Release.Name)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{- define "retryguard.rules" -}}
{{- if hasKey .Values.config.actuators "istio" }}
- apiGroups: [networking.istio.io]
  resources: [virtualservices]
  verbs: [get, list, watch, patch{{ if .Values.rbac.create }}, create, delete{{ end }}]
{{- end }}
{{- if hasKey .Values.config.actuators "gateway-api" }}
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, watch, patch]
{{- end }}
{{- if hasKey .Values.config.actuators "linkerd" }}
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, patch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes, grpcroutes]
  verbs: [get, list, patch]
- apiGroups: [policy.linkerd.io]
  resources: [httproutes]
  verbs: [get, list, patch]
- apiGroups: [linkerd.io]
  resources: [serviceprofiles]
  verbs: [get]
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}
