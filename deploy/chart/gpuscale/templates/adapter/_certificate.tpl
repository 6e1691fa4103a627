{{/* The Secret with the adapter's certificate; empty if the adapter issues it itself. */}}
{{- define "gpuscale.adapterSecret" -}}
{{- if eq .Values.adapter.certificate.source "secret" -}}
{{ .Values.adapter.certificate.secretName }}
{{- else if eq .Values.adapter.certificate.source "cert-manager" -}}
{{ include "gpuscale.name" (dict "root" . "name" "adapter") }}-tls
{{- end -}}
{{- end -}}

{{/* The names of the registered APIServices, separated by commas. */}}
{{- define "gpuscale.apiServices" -}}
{{- $v := .Values.adapter.apis -}}
{{- $all := concat (ternary (list "v1beta1.custom.metrics.k8s.io" "v1beta2.custom.metrics.k8s.io") list $v.custom) (ternary (list "v1beta1.external.metrics.k8s.io") list $v.external) -}}
{{- join "," $all -}}
{{- end -}}

{{/* The annotation that makes cert-manager set the CA of APIServices. */}}
{{- define "gpuscale.injectCA" -}}
{{- $v := .Values.adapter.certificate -}}
{{- $ns := (include "gpuscale.namespace" .) -}}
{{- if eq $v.source "cert-manager" -}}
cert-manager.io/inject-ca-from: {{ $ns }}/{{ include "gpuscale.name" (dict "root" . "name" "adapter") }}
{{- else if and (eq $v.source "secret") (not $v.caBundle) -}}
cert-manager.io/inject-ca-from-secret: {{ $ns }}/{{ $v.secretName }}
{{- end -}}
{{- end -}}
