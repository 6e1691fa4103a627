{{/* Names. Nothing is named after a namespace, and cluster-wide objects carry the release's name. */}}
{{- define "gpuscale.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- if contains $name $release -}}
{{- $release | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" $release $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A parent chart that has this chart as a dependency may put everything into another namespace than the release. */}}
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

{{/* Labels for selectors, which can never change. The first label is also Prometheus' job name, which boards and alerts
use. So it is not the chart's name: a parent chart may give this chart an alias. */}}
{{- define "gpuscale.selector" -}}
app.kubernetes.io/name: gpuscale-{{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end -}}

{{/* Argo CD's tracking by label sets app.kubernetes.io/instance of every object to its Application's name, but not in pod
templates. So a ServiceMonitor selects its Service by a label of ours. */}}
{{- define "gpuscale.scraped" -}}
app.kubernetes.io/name: gpuscale-{{ .name }}
gpuscale.io/release: {{ .root.Release.Name | quote }}
{{- end -}}

{{/* A Service's metadata, with the labels by which a ServiceMonitor selects it. */}}
{{- define "gpuscale.serviceMeta" -}}
{{- include "gpuscale.meta" (dict "root" .root "name" .name "more" (include "gpuscale.scraped" . | fromYaml)) -}}
{{- end -}}

{{/* One map, so that no key can occur twice. Labels that selectors use override commonLabels. "more", if given,
overrides all labels except the selector's. */}}
{{- define "gpuscale.labels" -}}
{{- $own := dict "app.kubernetes.io/component" .name "app.kubernetes.io/part-of" "gpuscale" "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_")) -}}
{{- $labels := mergeOverwrite (dict) (default dict .root.Values.commonLabels) $own (default dict .more) (include "gpuscale.selector" . | fromYaml) -}}
{{- toYaml $labels -}}
{{- end -}}

{{- define "gpuscale.meta" -}}
name: {{ include "gpuscale.name" . }}
namespace: {{ include "gpuscale.namespace" .root | quote }}
labels: {{- include "gpuscale.labels" . | nindent 2 }}
{{- end -}}

{{/* Our value, or else the global one that charts share by convention. */}}
{{- define "gpuscale.registry" -}}
{{- coalesce .Values.image.registry (default dict .Values.global).imageRegistry | default "" -}}
{{- end -}}

{{- define "gpuscale.image" -}}
{{- $image := (index .root.Values .name).image -}}
{{- $name := $image.repository -}}
{{- with include "gpuscale.registry" .root }}{{ $name = printf "%s/%s" . $name }}{{ end -}}
{{- if $image.digest -}}
{{ printf "%s@%s" $name $image.digest | quote }}
{{- else -}}
{{- $tag := coalesce $image.tag .root.Values.image.tag .root.Chart.AppVersion -}}
{{- with $image.variant }}{{ $tag = printf "%s-%s" $tag . }}{{ end -}}
{{ printf "%s:%s" $name $tag | quote }}
{{- end -}}
{{- end -}}

{{/* The user that the API server sees. */}}
{{- define "gpuscale.user" -}}
system:serviceaccount:{{ include "gpuscale.namespace" .root }}:{{ include "gpuscale.serviceAccount" . }}
{{- end -}}

{{- /* The namespaces whose exporters and autoscaler rules, alerts and the report believe, with commas. */ -}}
{{- define "gpuscale.trusted" -}}
{{- $all := concat (list (include "gpuscale.namespace" .)) (default list .Values.adapter.exporterNamespaces) (default list .Values.autoscaler.exporterNamespaces) | uniq -}}
{{- ternary "*" (join "," $all) (has "*" $all) -}}
{{- end }}

{{/* A CEL expression: of a map of the object's metadata, only keys k for which may is true were added, changed or
removed. Takes (dict "map" "annotations" "may" "k == 'a'"). */}}
{{- define "gpuscale.changesOnly" -}}
object.metadata.?{{ .map }}.orValue({}).all(k, {{ .may }} || oldObject.metadata.?{{ .map }}[?k] == optional.of(object.metadata.{{ .map }}[k]))
&& oldObject.metadata.?{{ .map }}.orValue({}).all(k, {{ .may }} || k in object.metadata.?{{ .map }}.orValue({}))
{{- end -}}

{{/* A CEL expression: these fields of part, "spec" or "status", are as before. Takes (dict "part" "status" "fields" (list "phase")). */}}
{{- define "gpuscale.unchanged" -}}
{{- $part := .part -}}
{{- range $i, $field := .fields }}{{ if $i }}
&& {{ end }}object.{{ $part }}.?{{ $field }} == oldObject.{{ $part }}.?{{ $field }}{{ end -}}
{{- end -}}

{{/* A CEL expression: whom an object belongs to, and who has to release it, is as before. Without an owner that exists it
is deleted. */}}
{{- define "gpuscale.sameOwners" -}}
object.metadata.?finalizers == oldObject.metadata.?finalizers
&& object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
{{- end -}}

{{/* The fields of a Node's status besides its conditions: TestPoliciesNameAllFields. */}}
{{- define "gpuscale.nodeStatus" -}}
{{- include "gpuscale.unchanged" (dict "part" "status" "fields" (list "allocatable" "capacity" "addresses" "phase" "daemonEndpoints" "nodeInfo" "images" "volumesInUse" "volumesAttached" "config" "runtimeHandlers" "features" "declaredFeatures")) -}}
{{- end -}}
