{{/* What pods of all components have alike. Each takes (dict "root" $ "name" "adapter"). */}}

{{- define "gpuscale.podMeta" -}}
{{- $c := index .root.Values .name -}}
labels: {{- include "gpuscale.labels" (dict "root" .root "name" .name "more" $c.podLabels) | nindent 2 }}
{{- $annotations := dict -}}
{{- if and (eq .root.Values.monitoring.scrape "annotations") (has .name (list "exporter" "autoscaler" "agent")) -}}
{{- $annotations = dict "prometheus.io/scrape" "true" "prometheus.io/port" ($c.port | toString) -}}
{{- end -}}
{{- with .checksum }}{{ $annotations = set $annotations "checksum/config" . }}{{ end -}}
{{- with mergeOverwrite $annotations (deepCopy (default dict $c.podAnnotations)) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The RuntimeClass of pods that use GPUs; empty is the node's own runtime. Takes root and name. */}}
{{- define "gpuscale.runtimeClass" -}}
{{- $class := (index .root.Values .name).runtimeClassName -}}
{{- if ne (toString $class) "auto" }}{{ $class }}{{ else if lookup "node.k8s.io/v1" "RuntimeClass" "" "nvidia" }}nvidia{{ end -}}
{{- end -}}

{{/* Expressions of a node affinity: the GPU Operator's labels of dcgm-exporter, without and with DRA, have none of
these values. mig-manager and k8s-driver-manager change them where they need the GPUs free. */}}
{{- define "gpuscale.unpaused" -}}
- {key: nvidia.com/gpu.deploy.dcgm-exporter, operator: NotIn, values: [{{ . }}]}
- {key: nvidia.com/gpu.deploy.dcgm-exporter-dra, operator: NotIn, values: [{{ . }}]}
{{- end -}}

{{/* DaemonSets of dcgm-exporter, as namespace/name; empty where there is none or no cluster. That of EKS's CloudWatch
add-on does not count: CloudWatch's agent alone scrapes it. */}}
{{- define "gpuscale.dcgmExporter" -}}
{{- range (lookup "apps/v1" "DaemonSet" "" "").items -}}
{{- $ours := eq (dig "metadata" "labels" "app.kubernetes.io/part-of" "" .) "gpuscale" -}}
{{- $cloudWatch := contains "cloudwatch.aws.amazon.com/" (toJson .metadata.ownerReferences) -}}
{{- if and (not $ours) (not $cloudWatch) (regexMatch `"image":"([^"]*/)?[^"/]*dcgm-exporter[^"/]*"` (toJson .spec.template.spec.containers)) }}{{ .metadata.namespace }}/{{ .metadata.name }} {{ end -}}
{{- end -}}
{{- end -}}

{{/* Which of dcgm-exporter's series the exporter has: true, once or false. */}}
{{- define "gpuscale.compat" -}}
{{- $compat := toString .Values.exporter.compat -}}
{{- if ne $compat "auto" }}{{ $compat }}{{ else if include "gpuscale.dcgmExporter" . }}false{{ else }}true{{ end -}}
{{- end -}}

{{- define "gpuscale.scheduling" -}}
{{- $c := index .root.Values .name -}}
{{- $secrets := default list .root.Values.image.pullSecrets -}}
{{- range (default dict .root.Values.global).imagePullSecrets }}{{ $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) }}{{ end -}}
{{- with uniq $secrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $c.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $c.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $c.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $c.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Both probes, with the values' fields over them. Takes root and name, the port, seconds between two probes of each (live,
ready), and scheme, or tcp where only the port is tried. */}}
{{- define "gpuscale.probes" -}}
{{- range $probe, $x := dict "livenessProbe" (list "/livez" .live) "readinessProbe" (list "/readyz" .ready) }}
{{- $do := dict "httpGet" (dict "path" (index $x 0) "port" $.port "scheme" (default "HTTP" $.scheme)) }}
{{- if $.tcp }}{{ $do = dict "tcpSocket" (dict "port" $.port) }}{{ end }}
{{ $probe }}: {{- toYaml (mergeOverwrite $do (dict "periodSeconds" (index $x 1) "timeoutSeconds" 5) (deepCopy (default dict (index $.root.Values $.name $probe)))) | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Two replicas on one node would go together. Preferred, so that a small cluster has both. */}}
{{- define "gpuscale.spread" -}}
{{- $c := index .root.Values .name -}}
topologySpreadConstraints:
{{- with $c.topologySpreadConstraints }}
{{ toYaml . }}
{{- else }}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "gpuscale.selector" $ | nindent 6 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* OpenShift gives users from a range of the namespace's own, and refuses pods that name another. */}}
{{- define "gpuscale.openshift" -}}
{{- if eq (toString .Values.openshift) "auto" }}{{ .Capabilities.APIVersions.Has "security.openshift.io/v1" }}{{ else }}{{ .Values.openshift }}{{ end -}}
{{- end -}}

{{/* What Pod Security calls restricted. */}}
{{- define "gpuscale.restrictedPod" -}}
securityContext:
  runAsNonRoot: true
  {{- if ne (include "gpuscale.openshift" .) "true" }}
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "gpuscale.restrictedContainer" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Volumes of Secrets are numbered: a Secret's name may have dots and 253 letters, a volume's not. */}}
{{- define "gpuscale.secretMounts" -}}
{{- range $i, $name := .Values.prometheus.secrets }}
- {name: secret-{{ $i }}, mountPath: /etc/gpuscale-secrets/{{ $name }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "gpuscale.secretVolumes" -}}
{{- range $i, $name := .Values.prometheus.secrets }}
- name: secret-{{ $i }}
  secret: {secretName: {{ $name | quote }}}
{{- end }}
{{- end -}}

{{/* A token is mounted where a pod says so, never by the account. */}}
{{- define "gpuscale.account" -}}
{{- $sa := (index .root.Values .name).serviceAccount -}}
{{- if $sa.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "gpuscale.serviceAccount" . | quote }}
  namespace: {{ include "gpuscale.namespace" .root | quote }}
  labels: {{- include "gpuscale.labels" . | nindent 4 }}
  {{- with $sa.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- end -}}

{{/* A binding of the component's account. Takes kind, role, rolekind, as, namespace besides. */}}
{{- define "gpuscale.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .as }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels: {{- include "gpuscale.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ .roleKind }}, name: {{ .role | quote }}}
subjects:
- {kind: ServiceAccount, name: {{ include "gpuscale.serviceAccount" . | quote }}, namespace: {{ include "gpuscale.namespace" .root | quote }}}
{{- end -}}

{{/* The right to OpenShift's constraint that has the node's folders and root. Takes root and name. */}}
{{- define "gpuscale.privileged" -}}
{{- if eq (include "gpuscale.openshift" .root) "true" }}
---
# OpenShift: the kubelet's socket is in a folder of the node, and is root's.
{{ include "gpuscale.binding" (dict "root" .root "name" .name "kind" "RoleBinding" "roleKind" "ClusterRole" "role" "system:openshift:scc:privileged" "as" (printf "%s-scc" (include "gpuscale.name" .)) "namespace" (include "gpuscale.namespace" .root)) }}
{{- end }}
{{- end -}}

{{- define "gpuscale.prometheus" -}}
{{- toYaml (mergeOverwrite (dict "url" .Values.prometheus.url) (deepCopy (default dict .Values.prometheus.client))) -}}
{{- end -}}

{{/* Kubernetes takes one of the two. */}}
{{- define "gpuscale.budget" -}}
{{- if ne (toString .minAvailable) "" -}}
minAvailable: {{ .minAvailable }}
{{- else -}}
maxUnavailable: {{ .maxUnavailable }}
{{- end -}}
{{- end -}}
