{{- define "retryguard.labels" -}}
app.kubernetes.io/name: retryguard-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The user's configuration, or the example. Helm would merge a default with it: foreign targets and rights would stay. */}}
{{- define "retryguard.written" -}}
{{- if .Values.config -}}
{{- range $key := list "sources" "actuators" "targets" -}}
{{- if not (index $.Values.config $key) -}}
{{- fail (printf "config.%s is missing: config is the whole configuration, and nothing of the example is added to it" $key) -}}
{{- end -}}
{{- end -}}
{{- toYaml .Values.config -}}
{{- else -}}
{{- .Files.Get "example.yaml" -}}
{{- end -}}
{{- end }}

{{- /* The same, with a Lease of the release's name where no election is written, and a status port that probes of the node reach. */}}
{{- define "retryguard.config" -}}
{{- $config := include "retryguard.written" . | fromYaml -}}
{{- if not (hasKey $config "leaderElection") -}}
{{- $_ := set $config "leaderElection" (dict "kubernetes" (dict "name" .Release.Name)) -}}
{{- end -}}
{{- if not (hasKey $config "status") -}}
{{- $_ := set $config "status" (dict "listen" "0.0.0.0:9464") -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{- define "retryguard.rules" -}}
{{- $actuators := (include "retryguard.written" . | fromYaml).actuators }}
{{- if hasKey $actuators "istio" }}
- apiGroups: [networking.istio.io]
  resources: [virtualservices]
  verbs: [get, list, watch, patch{{ if .Values.rbac.create }}, create, delete{{ end }}]
{{- end }}
{{- if hasKey $actuators "gateway-api" }}
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, watch, patch]
{{- end }}
{{- if hasKey $actuators "linkerd" }}
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
