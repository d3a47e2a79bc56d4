{{- define "tailbox.name" -}}
{{- if contains "tailbox" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-tailbox" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tailbox.selector" -}}
app.kubernetes.io/name: tailbox
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tailbox.labels" -}}
{{ include "tailbox.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* A container of tailbox: a dict of root, name, args, envFrom. */}}
{{- define "tailbox.container" -}}
{{- $values := .root.Values -}}
name: {{ .name }}
image: "{{ $values.image.repository }}:{{ $values.image.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ $values.image.pullPolicy }}
args: {{ toJson .args }}
{{- with .envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $memory := dig "limits" "memory" "" $values.resources | toString }}
{{- $mi := 0 }}
{{- if regexMatch "^[0-9]+Mi$" $memory }}{{ $mi = trimSuffix "Mi" $memory | int }}{{ else if regexMatch "^[0-9]+Gi$" $memory }}{{ $mi = mul (trimSuffix "Gi" $memory | int) 1024 }}{{ end }}
{{- if or $values.env $mi }}
env:
  {{- if $mi }}
  - name: GOMEMLIMIT
    value: {{ div (mul $mi 3) 4 }}MiB
  {{- end }}
  {{- with $values.env }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
volumeMounts:
  - {name: config, mountPath: /etc/tailbox, readOnly: true}
  {{- if $values.secretFiles }}
  - {name: secrets, mountPath: /etc/tailbox/secrets, readOnly: true}
  {{- end }}
{{- end }}
