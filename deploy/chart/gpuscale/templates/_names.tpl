{{/* Names. Nothing is named after a namespace, and cluster-wide objects carry the release's name. */}}
{{- define "gpuscale.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of another chart that has this one as a dependency, everything may be elsewhere than the release. */}}
{{- define "gpuscale.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* A component's name. Takes (dict "root" $ "name" "adapter"). */}}
{{- define "gpuscale.name" -}}
{{- printf "%s-%s" (include "gpuscale.fullname" .root) .name -}}
{{- end -}}

{{- define "gpuscale.serviceAccount" -}}
{{- $sa := (index .root.Values .name).serviceAccount -}}
{{- if $sa.name }}{{ $sa.name }}{{ else if $sa.create }}{{ include "gpuscale.name" . }}{{ else }}default{{ end -}}
{{- end -}}

{{/* What a selector may name: it can never change. */}}
{{- define "gpuscale.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}-{{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end -}}

{{/* One map, so that no key can be there twice. What is found by has the last word over
commonLabels; more, where it is given, over all but the selector's. */}}
{{- define "gpuscale.labels" -}}
{{- $own := dict "app.kubernetes.io/component" .name "app.kubernetes.io/part-of" "gpuscale" "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_")) -}}
{{- $labels := mergeOverwrite (dict) (default dict .root.Values.commonLabels) $own (default dict .more) (include "gpuscale.selector" . | fromYaml) -}}
{{- toYaml $labels -}}
{{- end -}}

{{- define "gpuscale.meta" -}}
name: {{ include "gpuscale.name" . }}
namespace: {{ include "gpuscale.namespace" .root }}
labels: {{- include "gpuscale.labels" . | nindent 2 }}
{{- end -}}

{{- define "gpuscale.image" -}}
{{- $image := (index .root.Values .name).image -}}
{{- $name := $image.repository -}}
{{- with .root.Values.image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if $image.digest -}}
{{ printf "%s@%s" $name $image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" $name (coalesce $image.tag .root.Values.image.tag .root.Chart.AppVersion) | quote }}
{{- end -}}
{{- end -}}

{{/* The user that the API server sees. */}}
{{- define "gpuscale.user" -}}
system:serviceaccount:{{ include "gpuscale.namespace" .root }}:{{ include "gpuscale.serviceAccount" . }}
{{- end -}}
