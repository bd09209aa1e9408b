{{- define "outlast.name" -}}
{{- if contains "outlast" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-outlast" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "outlast.selector" -}}
app.kubernetes.io/name: outlast
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "outlast.labels" -}}
{{ include "outlast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "outlast.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* The build id as part of a name: two that differ in signs only still differ. */}}
{{- define "outlast.versionName" -}}
{{- $id := .Values.versioning.buildId }}
{{- $plain := $id | lower | replace "." "-" | replace "_" "-" | trunc 12 | trimSuffix "-" }}
{{- printf "%s-%s" $plain (sha256sum $id | trunc 6) }}
{{- end }}
