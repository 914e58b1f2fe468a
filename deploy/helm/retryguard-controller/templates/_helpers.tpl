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
- apiGroups: [networking.istio.io]
  resources: [virtualservices]
  verbs: [get, list, watch, patch{{ if .Values.rbac.create }}, create, delete{{ end }}]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}
