{{/* Checks that a schema cannot express. Every message names the value and what to do. */}}
{{- define "gpuscale.check" -}}
{{- $v := .Values -}}
{{- range list
  (list (ternary "image.registry" "global.imageRegistry" (not (empty $v.image.registry))) (include "gpuscale.registry" .) "^([^/\\s]+(/[^/\\s]+)*)?$" "a registry's name and path such as registry.example/gpuscale, without https:// and without a slash at the end")
  (list "fullnameOverride" (include "gpuscale.fullname" .) "^[a-z][-a-z0-9]*$" "a name that begins with a small letter, since Services have it. Without this value it is made of the release's name: choose another release name, or set fullnameOverride=gpuscale")
  (list "prometheus.url" $v.prometheus.url "^https?://[^/\\s]" "an address that begins with http:// or https://, such as http://prometheus-operated.monitoring.svc:9090")
  (list "monitoring.interval" $v.monitoring.interval "^[0-9]+(ms|s|m)$" "a number and ms, s or m, such as 15s")
  (list "podResourcesDir" $v.podResourcesDir "/pod-resources$" "the folder pod-resources in the kubelet's root folder, such as /var/snap/microk8s/common/var/lib/kubelet/pod-resources")
  (list "report.since" $v.report.since "^([0-9]+[wdhm])+$" "a number and w, d, h or m, such as 7d")
-}}
{{- if not (regexMatch (index . 2) (index . 1)) -}}
{{- fail (printf "%s: %q must be %s" (index . 0) (index . 1) (index . 3)) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $v.adapter.certificate.source "secret") (not $v.adapter.certificate.secretName) -}}
{{- fail "adapter.certificate.secretName: needed with adapter.certificate.source=secret: the name of a kubernetes.io/tls Secret" -}}
{{- end -}}
{{- if and $v.report.persistence.enabled $v.report.persistence.existingClaim (not $v.report.enabled) -}}
{{- fail "report.persistence: the report is off; set report.enabled=true" -}}
{{- end -}}
{{- if and (hasPrefix "unix://" (default "" $v.exporter.hostEngine.address)) (not $v.exporter.hostEngine.socketDir) -}}
{{- fail "exporter.hostEngine.socketDir: needed with a unix:// address: the folder of the node that the socket is in" -}}
{{- end -}}
{{- if and $v.exporter.hostEngine.address (eq $v.exporter.source "nvml") -}}
{{- fail "exporter.hostEngine.address: a host engine is DCGM's; set exporter.source to dcgm or auto" -}}
{{- end -}}
{{- if and (empty $v.monitoring.prometheusServiceAccount.name) (not (empty $v.monitoring.prometheusServiceAccount.namespace)) -}}
{{- fail "monitoring.prometheusServiceAccount.name: needed with a namespace" -}}
{{- end -}}
{{- if and (not (empty $v.monitoring.prometheusServiceAccount.name)) (empty $v.monitoring.prometheusServiceAccount.namespace) -}}
{{- fail "monitoring.prometheusServiceAccount.namespace: needed with a name" -}}
{{- end -}}
{{- $e := $v.exporter -}}
{{- $asks := or $v.adapter.enabled $v.autoscaler.enabled $v.agent.enabled $v.report.enabled (and $e.enabled (or $e.allocatedPodLabels $e.fractionalGPUs $e.virtualGPUs $e.dra $e.nodeCondition $e.quiesceAnnotation)) -}}
{{- if and $v.networkPolicy.enabled $v.networkPolicy.egress.enabled (empty $v.networkPolicy.egress.to) $asks -}}
{{- fail "networkPolicy.egress.to: needed with networkPolicy.egress.enabled: without it the programs reach DNS only, neither Prometheus nor the API server. {to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]} is Prometheus' namespace; the API server is an ipBlock with the addresses of kubectl get endpointslices -l kubernetes.io/service-name=kubernetes" -}}
{{- end -}}
{{- $writes := dict "exporter" (or $v.exporter.nodeCondition $v.exporter.quiesceAnnotation) "autoscaler" (not $v.autoscaler.dryRun) "agent" true -}}
{{- $by := dict -}}
{{- range $name := list "exporter" "autoscaler" "agent" -}}
{{- if and (index $v $name).enabled (index $writes $name) -}}
{{- $account := include "gpuscale.serviceAccount" (dict "root" $ "name" $name) -}}
{{- with get $by $account -}}
{{- fail (printf "%s.serviceAccount: %s writes as %q, too. An admission policy allows an account the writes of one program only: name another account" $name . $account) -}}
{{- end -}}
{{- $_ := set $by $account $name -}}
{{- end -}}
{{- end -}}
{{- /* Only with a cluster: helm template has none. */ -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- /* Helm's own error names the missing kind, but not the value that requires it. */ -}}
{{- $kinds := list -}}
{{- if has $v.monitoring.scrape (list "ServiceMonitor" "PodMonitor") -}}
{{- $azure := "azmonitoring.coreos.com/v1" -}}
{{- $instead := "monitoring.scrape=annotations" -}}
{{- if .Capabilities.APIVersions.Has (printf "%s/%s" $azure $v.monitoring.scrape) }}{{ $instead = printf "monitoring.apiVersion=%s for Azure's managed Prometheus" $azure }}{{ end -}}
{{- $kinds = append $kinds (list "monitoring.scrape" $v.monitoring.apiVersion $v.monitoring.scrape (ternary "Azure's managed Prometheus" "the Prometheus Operator" (eq $v.monitoring.apiVersion $azure)) $instead) -}}
{{- end -}}
{{- if or $v.monitoring.rules.recording $v.monitoring.rules.alerts -}}
{{- $kinds = append $kinds (list "monitoring.rules" "monitoring.coreos.com/v1" "PrometheusRule" "the Prometheus Operator" "monitoring.rules.recording=false and monitoring.rules.alerts=false (docs/report.md has the rules as files)") -}}
{{- end -}}
{{- if and $v.adapter.enabled (eq $v.adapter.certificate.source "cert-manager") -}}
{{- $kinds = append $kinds (list "adapter.certificate.source" "cert-manager.io/v1" "Certificate" "cert-manager" "adapter.certificate.source=self") -}}
{{- end -}}
{{- range $x := $kinds -}}
{{- if not ($.Capabilities.APIVersions.Has (printf "%s/%s" (index $x 1) (index $x 2))) -}}
{{- fail (printf "%s: the cluster has no %s of %s. Install that first, or set %s" (index $x 0) (index $x 2) (index $x 3) (index $x 4)) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "exporter" "adapter" "autoscaler" "agent" "report" -}}
{{- $c := index $v $name -}}
{{- if and $c.enabled (not (or (include "gpuscale.registry" $) (contains "/" $c.image.repository) $v.image.tag $c.image.tag $c.image.digest)) (eq $.Chart.AppVersion "devel") (ne $v.image.pullPolicy "Never") -}}
{{- fail (printf "image.registry: %s:devel is in no registry, since this chart is not of a release. Build it (make image PROGRAM=%s VERSION=devel), push it and set image.registry; where the nodes have the image already, set image.pullPolicy=Never" $c.image.repository $name) -}}
{{- end -}}
{{- end -}}
{{- $ns := include "gpuscale.namespace" $ -}}
{{- $level := dig "metadata" "labels" "pod-security.kubernetes.io/enforce" "privileged" (default dict (lookup "v1" "Namespace" "" $ns)) -}}
{{- if ne $level "privileged" -}}
{{- $why := dict "exporter" (list $v.exporter.enabled "mount the kubelet's socket") "agent" (list $v.agent.enabled "mount the kubelet's socket") "adapter" (list (and $v.adapter.enabled $v.adapter.hostNetwork) "are on their node's network (adapter.hostNetwork)") -}}
{{- range $name, $because := $why -}}
{{- if index $because 0 -}}
{{- fail (printf "%s: namespace %q enforces Pod Security %q, which refuses its pods: they %s. kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged, or install this part as a release of its own in another namespace" $name $ns $level (index $because 1) $ns) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name := list "exporter" "agent" -}}
{{- if (index $v $name).enabled -}}
{{- $class := (index $v $name).runtimeClassName -}}
{{- if and $class (ne $class "auto") (not (lookup "node.k8s.io/v1" "RuntimeClass" "" $class)) -}}
{{- fail (printf "%s.runtimeClassName: there is no RuntimeClass %q. kubectl get runtimeclass lists them; auto takes nvidia where there is one" $name $class) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $v.adapter.enabled -}}
{{- range $api := compact (splitList "," (include "gpuscale.apiServices" $)) -}}
{{- $have := default dict (lookup "apiregistration.k8s.io/v1" "APIService" "" $api) -}}
{{- $meta := default dict $have.metadata -}}
{{- $by := dig "annotations" "meta.helm.sh/release-name" "" $meta -}}
{{- $in := dig "annotations" "meta.helm.sh/release-namespace" "" $meta -}}
{{- if and $have (or (ne $by $.Release.Name) (ne $in $.Release.Namespace)) -}}
{{- $service := dig "spec" "service" dict $have -}}
{{- $which := ternary "external" "custom" (contains "external" $api) -}}
{{- fail (printf "adapter.apis.%s: APIService %s is there already, for service %q in namespace %q. A cluster has one server of each API. To keep that one: adapter.apis.%s=false%s. To use gpuscale's: uninstall the other, or kubectl delete apiservice %s" $which $api (dig "name" "none" $service) (dig "namespace" "none" $service) $which (ternary "; to serve KEDA's metrics through gpuscale's: docs/adapter.md" "" (eq $which "external")) $api) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.autoscaler.enabled $v.autoscaler.migManager.namespace (ne $v.autoscaler.migManager.namespace (include "gpuscale.namespace" .)) -}}
{{- if not (lookup "v1" "Namespace" "" $v.autoscaler.migManager.namespace) -}}
{{- fail (printf "autoscaler.migManager.namespace: there is no namespace %q. Name the GPU Operator's, or set it to \"\" where there is none" $v.autoscaler.migManager.namespace) -}}
{{- end -}}
{{- end -}}
{{- /* Helm rejects these too, but does not say what to do. */ -}}
{{- if and $v.crds.install $v.autoscaler.enabled -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" -}}
{{- $name := ($.Files.Get $path | fromYaml).metadata.name -}}
{{- $have := (default dict (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name)).metadata | default dict -}}
{{- $by := dig "annotations" "meta.helm.sh/release-name" "" $have -}}
{{- $in := dig "annotations" "meta.helm.sh/release-namespace" "" $have -}}
{{- if and $have (or (ne $by $.Release.Name) (ne $in $.Release.Namespace)) -}}
{{- $who := ternary (printf "release %q in namespace %q" $by $in) "no release" (not (empty $by)) -}}
{{- fail (printf "crds.install: %s is there already, of %s. If that is to keep it, set crds.install=false here. To have it in this release: kubectl annotate --overwrite crd %s meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s && kubectl label --overwrite crd %s app.kubernetes.io/managed-by=Helm" $name $who $name $.Release.Name $.Release.Namespace $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.agent.enabled (ne $v.agent.devicePlugin.namespace (include "gpuscale.namespace" .)) -}}
{{- if not (lookup "v1" "Namespace" "" $v.agent.devicePlugin.namespace) -}}
{{- fail (printf "agent.devicePlugin.namespace: there is no namespace %q. Name that of NVIDIA's device plugin" $v.agent.devicePlugin.namespace) -}}
{{- end -}}
{{- end -}}
{{- if and $e.enabled (not (or $e.nodeSelector $e.affinity)) -}}
{{- range (lookup "apps/v1" "DaemonSet" "" "").items -}}
{{- $labels := default dict .metadata.labels -}}
{{- $by := dig "annotations" "meta.helm.sh/release-name" "" .metadata -}}
{{- $in := dig "annotations" "meta.helm.sh/release-namespace" "" .metadata -}}
{{- if and (eq (dig "app.kubernetes.io/part-of" "" $labels) "gpuscale") (eq (dig "app.kubernetes.io/component" "" $labels) "exporter") (or (ne $by $.Release.Name) (ne $in $.Release.Namespace)) -}}
{{- fail (printf "exporter.enabled: DaemonSet %s/%s, of %s, is gpuscale's exporter, too: each GPU would be exported twice. To keep that one: exporter.enabled=false. To use this one: %s. To have both on different nodes: select this one's by exporter.nodeSelector or exporter.affinity" .metadata.namespace .metadata.name (ternary (printf "release %q" $by) "no release" (not (empty $by))) (ternary (printf "helm -n %s uninstall %s" $in $by) (printf "kubectl -n %s delete daemonset %s" .metadata.namespace .metadata.name) (not (empty $by)))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
