{{/* What every pod of Outlast has in common. Arguments: root, and what is its own: settings, files. */}}

{{- define "outlast.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "outlast.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Variable of each secret's file, by its key in `secrets.keys`, for the kind of process in `for`. */}}
{{- define "outlast.secretVariables" -}}
{{- $common := dict "sealKeys" "OUTLAST_SEAL_KEYS_FILE" "apifyToken" "APIFY_TOKEN_FILE" "temporalApiKey" "TEMPORAL_API_KEY_FILE" "storeAccessKey" "AWS_ACCESS_KEY_ID_FILE" "storeSecretKey" "AWS_SECRET_ACCESS_KEY_FILE" }}
{{- $api := dict "apiKeys" "OUTLAST_API_KEYS_FILE" }}
{{- $worker := dict "responderWebhookUrl" "OUTLAST_RESPONDER_WEBHOOK_URL_FILE" }}
{{- $models := dict "openaiApiKey" "OUTLAST_OPENAI_API_KEY_FILE" "anthropicApiKey" "OUTLAST_ANTHROPIC_API_KEY_FILE" "zaiApiKey" "OUTLAST_ZAI_API_KEY_FILE" "genericApiKey" "OUTLAST_GENERIC_API_KEY_FILE" }}
{{- $all := dict "common" $common "api" $api "worker" $worker "models" $models }}
{{- $found := dict }}
{{- range $kind := .kinds }}{{- range $key, $variable := get $all $kind }}
{{- with get $.root.Values.secrets.keys $key }}{{- $_ := set $found $variable . }}{{- end }}
{{- end }}{{- end }}
{{- toJson $found }}
{{- end }}

{{- define "outlast.environment" -}}
{{- $values := .root.Values }}
{{- $environment := dict "TEMPORAL_ADDRESS" $values.temporal.address "TEMPORAL_NAMESPACE" $values.temporal.namespace "OUTLAST_STORE_URL" $values.store.url }}
{{- if $values.temporal.tls.enabled }}{{- $_ := set $environment "TEMPORAL_TLS" "true" }}{{- end }}
{{- with $values.temporal.tls.serverName }}{{- $_ := set $environment "TEMPORAL_TLS_SERVER_NAME" . }}{{- end }}
{{- if $values.temporal.tls.secretName }}
{{- $_ := set $environment "TEMPORAL_TLS_CLIENT_CERT_PATH" "/etc/outlast/temporal/tls.crt" }}
{{- $_ := set $environment "TEMPORAL_TLS_CLIENT_KEY_PATH" "/etc/outlast/temporal/tls.key" }}
{{- if $values.temporal.tls.ca }}{{- $_ := set $environment "TEMPORAL_TLS_SERVER_CA_CERT_PATH" "/etc/outlast/temporal/ca.crt" }}{{- end }}
{{- end }}
{{- with $values.store.endpoint }}{{- $_ := set $environment "AWS_ENDPOINT_URL" . }}{{- end }}
{{- with $values.store.region }}{{- $_ := set $environment "AWS_REGION" . }}{{- end }}
{{- range $variable, $key := include "outlast.secretVariables" . | fromJson }}
{{- $_ := set $environment $variable (printf "/etc/outlast/secrets/%s" $key) }}
{{- end }}
{{- $environment = mustMergeOverwrite $environment .own $values.settings .settings }}
{{- range $name, $value := $environment }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "outlast.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: data, mountPath: /data}
- {name: secrets, mountPath: /etc/outlast/secrets, readOnly: true}
{{- if .root.Values.temporal.tls.secretName }}
- {name: temporal-tls, mountPath: /etc/outlast/temporal, readOnly: true}
{{- end }}
{{- end }}

{{- define "outlast.volumes" -}}
{{- $secret := required "secrets.existingSecret names the secret with the sealing keys: docs/deploy-helm.md says how to make it" .root.Values.secrets.existingSecret -}}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
- name: data
  emptyDir: {sizeLimit: 1Gi}
- name: secrets
  secret:
    secretName: {{ $secret }}
    defaultMode: 0440
    items:
    {{- range $variable, $key := include "outlast.secretVariables" . | fromJson }}
      - {key: {{ $key }}, path: {{ $key }}}
    {{- end }}
{{- with .root.Values.temporal.tls.secretName }}
- name: temporal-tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- define "outlast.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "outlast.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
{{- end }}
