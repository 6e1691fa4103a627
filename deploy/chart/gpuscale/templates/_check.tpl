{{/* What a schema cannot say. Every message names the value and what to do. */}}
{{- define "gpuscale.check" -}}
{{- $v := .Values -}}
{{- if and (eq $v.adapter.certificate.source "secret") (not $v.adapter.certificate.secretName) -}}
{{- fail "adapter.certificate.secretName: needed with adapter.certificate.source=secret: the name of a kubernetes.io/tls Secret" -}}
{{- end -}}
{{- if and $v.report.persistence.enabled $v.report.persistence.existingClaim (not $v.report.enabled) -}}
{{- fail "report.persistence: the report is off; set report.enabled=true" -}}
{{- end -}}
{{- if and (hasPrefix "unix://" $v.exporter.hostEngine.address) (not $v.exporter.hostEngine.socketDir) -}}
{{- fail "exporter.hostEngine.socketDir: needed with a unix:// address: the folder of the node that the socket is in" -}}
{{- end -}}
{{- if and $v.exporter.hostEngine.address (eq $v.exporter.source "nvml") -}}
{{- fail "exporter.hostEngine.address: a host engine is DCGM's; set exporter.source to dcgm or auto" -}}
{{- end -}}
{{- if and (eq $v.monitoring.prometheusServiceAccount.name "") (ne $v.monitoring.prometheusServiceAccount.namespace "") -}}
{{- fail "monitoring.prometheusServiceAccount.name: needed with a namespace" -}}
{{- end -}}
{{- if and (ne $v.monitoring.prometheusServiceAccount.name "") (eq $v.monitoring.prometheusServiceAccount.namespace "") -}}
{{- fail "monitoring.prometheusServiceAccount.namespace: needed with a name" -}}
{{- end -}}
{{- if and $v.agent.enabled $v.exporter.enabled (eq $v.agent.exporterBy "annotation") (not $v.exporter.quiesceAnnotation) -}}
{{- fail "agent.exporterBy: annotation needs exporter.quiesceAnnotation=true" -}}
{{- end -}}
{{- /* Only where a cluster answers: helm template has none. */ -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- if and $v.autoscaler.enabled $v.autoscaler.migManager.namespace (ne $v.autoscaler.migManager.namespace .Release.Namespace) -}}
{{- if not (lookup "v1" "Namespace" "" $v.autoscaler.migManager.namespace) -}}
{{- fail (printf "autoscaler.migManager.namespace: there is no namespace %q. Name the GPU Operator's, or set it to \"\" where there is none" $v.autoscaler.migManager.namespace) -}}
{{- end -}}
{{- end -}}
{{- if and $v.agent.enabled (ne $v.agent.devicePlugin.namespace .Release.Namespace) -}}
{{- if not (lookup "v1" "Namespace" "" $v.agent.devicePlugin.namespace) -}}
{{- fail (printf "agent.devicePlugin.namespace: there is no namespace %q" $v.agent.devicePlugin.namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
