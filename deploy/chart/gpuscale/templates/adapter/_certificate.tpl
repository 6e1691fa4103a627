{{- define "gpuscale.adapterSecret" -}}
{{- if eq .Values.adapter.certificate.source "secret" -}}
{{ .Values.adapter.certificate.secretName }}
{{- else -}}
{{ include "gpuscale.name" (dict "root" . "name" "adapter") }}-tls
{{- end -}}
{{- end -}}

{{/* The annotation by which cert-manager fills in the authority of APIServices. */}}
{{- define "gpuscale.injectCA" -}}
{{- $v := .Values.adapter.certificate -}}
{{- $ns := (include "gpuscale.namespace" .) -}}
{{- if eq $v.source "cert-manager" -}}
cert-manager.io/inject-ca-from: {{ $ns }}/{{ include "gpuscale.name" (dict "root" . "name" "adapter") }}
{{- else if and (eq $v.source "secret") (not $v.caBundle) -}}
cert-manager.io/inject-ca-from-secret: {{ $ns }}/{{ $v.secretName }}
{{- end -}}
{{- end -}}
