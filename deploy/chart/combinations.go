package chart

import "sigs.k8s.io/yaml"

// Combination is one way to install the chart.
type Combination struct {
	Name   string
	Values string // YAML
}

// Combinations are values that users have, each at its edge, and together: the
// defaults, and then adapter and autoscaler are on where the values do not say. The
// chart has to render them all, and the API server to take what is rendered.
func Combinations() []Combination {
	all := combinations()
	for i := range all {
		all[i].Values = enabled(all[i].Values)
	}
	return append([]Combination{{"defaults", ``}}, all...)
}

// enabled turns the adapter and the autoscaler on where the values do not say.
func enabled(values string) string {
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &v); err != nil {
		panic(err) // combinations are constants
	}
	for _, program := range []string{"adapter", "autoscaler"} {
		of, _ := v[program].(map[string]any)
		if of == nil {
			of = map[string]any{}
		}
		if _, ok := of["enabled"]; !ok {
			of["enabled"] = true
		}
		v[program] = of
	}
	out, err := yaml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func combinations() []Combination {
	return []Combination{
		{"all programs", `{agent: {enabled: true}, report: {enabled: true}}`},
		{"no program", `{exporter: {enabled: false}, adapter: {enabled: false}, autoscaler: {enabled: false}}`},
		{"no program, no CRDs", `{crds: {install: false}, exporter: {enabled: false}, adapter: {enabled: false}, autoscaler: {enabled: false}}`},
		{"exporter alone", `{adapter: {enabled: false}, autoscaler: {enabled: false}}`},
		{"adapter alone", `{exporter: {enabled: false}, autoscaler: {enabled: false}}`},
		{"autoscaler alone", `{exporter: {enabled: false}, adapter: {enabled: false}}`},
		{"agent alone", `{exporter: {enabled: false}, adapter: {enabled: false}, autoscaler: {enabled: false}, agent: {enabled: true}}`},
		{"report alone", `{exporter: {enabled: false}, adapter: {enabled: false}, autoscaler: {enabled: false}, report: {enabled: true}}`},

		{"names", `{nameOverride: gs, fullnameOverride: gpus, commonLabels: {team: ml}}`},
		{"a long name", `{fullnameOverride: a-name-that-is-longer-than-any-kubernetes-object-may-be-called}`},
		{"images", `{image: {registry: registry.example/team, tag: v1, pullPolicy: Always, pullSecrets: [{name: pull}]}, adapter: {image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}, exporter: {image: {tag: v2}}}`},
		{"labels that are there already", `{commonLabels: {app.kubernetes.io/part-of: platform, team: ml}, exporter: {podLabels: {team: gpu}}, monitoring: {scrape: ServiceMonitor, labels: {team: watch}, rules: {alerts: true}, dashboards: {enabled: true, labels: {team: boards}}}}`},
		{"in another namespace than the release", `{namespaceOverride: kube-public, agent: {enabled: true}, report: {enabled: true}, monitoring: {scrape: ServiceMonitor}}`},
		{"OpenShift", `{openshift: true, agent: {enabled: true}, report: {enabled: true}}`},
		{"SELinux", `{seLinuxOptions: {type: spc_t}, agent: {enabled: true}}`},
		{"a kubelet elsewhere", `{podResourcesDir: /var/lib/k0s/kubelet/pod-resources, agent: {enabled: true}}`},
		{"volumes everywhere", `{exporter: {extraVolumes: [{name: x, emptyDir: {}}], extraVolumeMounts: [{name: x, mountPath: /x}]}, agent: {enabled: true, extraVolumes: [{name: x, emptyDir: {}}], extraVolumeMounts: [{name: x, mountPath: /x}]}, report: {enabled: true, extraVolumes: [{name: x, emptyDir: {}}], extraVolumeMounts: [{name: x, mountPath: /x}]}}`},
		{"keys without anything behind them", `{prometheus: {client: null}, commonLabels: null, autoscaler: {config: null, exporterNamespaces: null, extraArgs: null}, adapter: {config: null, exporterNamespaces: null, podAnnotations: null, priorityClassName: null, pdb: {maxUnavailable: null, minAvailable: 1}}}`},
		{"exporter behind TLS", `{exporter: {webConfigSecret: exporter-web}, monitoring: {scrape: ServiceMonitor, endpoints: {exporter: {scheme: https, tlsConfig: {insecureSkipVerify: true}}, adapter: {interval: 1m, relabelings: [{action: labeldrop, regex: pod_template_hash}]}}}}`},
		{"under another chart", `{global: {whatever: {it: has}}}`},
		{"accounts of others", `{exporter: {serviceAccount: {create: false}}, adapter: {serviceAccount: {create: false, name: mine}}, autoscaler: {serviceAccount: {name: yours, annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/x"}}}}`},

		{"exporter: DCGM embedded", `{exporter: {source: dcgm, dcgmLibraryDir: /usr/lib/x86_64-linux-gnu}}`},
		{"exporter: profiling", `{exporter: {source: dcgm, dcgmLibraryDir: /opt/dcgm, profiling: true, runtimeClassName: nvidia}}`},
		{"exporter: remote host engine of the node", `{exporter: {hostEngine: {address: "$(HOST_IP):5555"}, dcgmLibraryDir: /opt/dcgm}}`},
		{"exporter: remote host engine by socket", `{exporter: {hostEngine: {address: "unix:///run/dcgm/socket", socketDir: /run/dcgm}}}`},
		{"exporter: NVML", `{exporter: {source: nvml, attribution: false}}`},
		{"exporter: socket", `{exporter: {quiesceSocket: true}}`},
		{"exporter: labels of allocated pods", `{exporter: {allocatedPodLabels: true}}`},
		{"exporter: fractions", `{exporter: {fractionalGPUs: true, virtualGPUs: true}}`},
		{"exporter: DRA", `{exporter: {dra: true}}`},
		{"exporter: condition", `{exporter: {nodeCondition: true}}`},
		{"exporter: annotation", `{exporter: {quiesceAnnotation: true}}`},
		{"exporter: all rights", `{exporter: {allocatedPodLabels: true, fractionalGPUs: true, virtualGPUs: true, dra: true, nodeCondition: true, quiesceAnnotation: true, profiling: true}}`},
		{"exporter: counters", `{exporter: {counters: "DCGM_FI_DEV_GPU_UTIL, gauge, busy\n", compat: once, collectIntervalMilliseconds: 200, port: 9500}}`},
		{"exporter: no compat, other nodes", `{exporter: {compat: "false", nodeSelector: {gpu: "yes"}, affinity: {nodeAffinity: {}}, tolerations: [], priorityClassName: "", updateStrategy: {type: OnDelete}, extraArgs: [--log-format=json], extraEnv: [{name: A, value: b}], podAnnotations: {a: b}, podLabels: {c: d}}}`},

		{"adapter: custom only", `{adapter: {apis: {external: false}}}`},
		{"adapter: external only", `{adapter: {apis: {custom: false}}}`},
		{"adapter: no API", `{adapter: {apis: {custom: false, external: false}}}`},
		{"adapter: cert-manager", `{adapter: {certificate: {source: cert-manager}}}`},
		{"adapter: cert-manager, an issuer of theirs", `{adapter: {certificate: {source: cert-manager, issuerRef: {name: corp, kind: ClusterIssuer}}}}`},
		{"adapter: a certificate of theirs", `{adapter: {certificate: {source: secret, secretName: mine, caBundle: "-----BEGIN CERTIFICATE-----"}}, monitoring: {scrape: ServiceMonitor}}`},
		{"adapter: a certificate of theirs, authority injected", `{adapter: {certificate: {source: secret, secretName: mine}}, monitoring: {scrape: ServiceMonitor}}`},
		{"adapter: one replica", `{adapter: {replicas: 1, pdb: {enabled: false}, hostNetwork: true, servicePort: 6443, port: 10443}}`},
		{"adapter: configuration", `{adapter: {config: {interval: 10s, maxAge: 90s, rules: [{name: batch_backlog, subject: namespace, sources: [{metric: batch_queue_length}], perPod: sum, perWorkload: sum}]}, exporterNamespaces: [], scaleTargets: [{apiGroup: argoproj.io, resources: [rollouts]}], aggregateToView: false}}`},
		{"adapter: volumes", `{adapter: {extraVolumes: [{name: x, emptyDir: {}}], extraVolumeMounts: [{name: x, mountPath: /x}], topologySpreadConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}], affinity: {podAntiAffinity: {}}, nodeSelector: {a: b}, tolerations: [{operator: Exists}]}}`},
		{"adapter: a share may go", `{adapter: {replicas: 5, pdb: {maxUnavailable: 40%}}}`},
		{"adapter: no scale", `{adapter: {scaleTargets: []}}`},

		{"autoscaler: dry run", `{autoscaler: {dryRun: true}}`},
		{"autoscaler: exporters elsewhere", `{autoscaler: {exporterNamespaces: [gpu-exporter, release-namespace]}}`},
		{"autoscaler: all pools", `{autoscaler: {pools: {clusterAPI: true, karpenter: true, scale: [{apiGroup: example.org, resource: herds}]}}}`},
		{"autoscaler: all pools, dry run", `{autoscaler: {dryRun: true, pools: {clusterAPI: true, karpenter: true, scale: [{apiGroup: example.org, resource: herds}]}}}`},
		{"autoscaler: no mig-manager", `{autoscaler: {migManager: {namespace: ""}}}`},
		{"autoscaler: no neighbours", `{autoscaler: {neighbours: false, replicas: 1, port: 8080, pdb: {minAvailable: 1}}}`},
		{"autoscaler: configuration", `{autoscaler: {config: {interval: 5s, policy: {maxNodesPerHour: 3}, leaderElection: {leaseDuration: 30s}}, extraArgs: [--log-level=debug], extraEnv: [{name: AWS_REGION, value: eu-west-1}]}}`},
		{"autoscaler: volumes", `{autoscaler: {extraVolumes: [{name: x, emptyDir: {}}], extraVolumeMounts: [{name: x, mountPath: /x}], priorityClassName: "", resources: {}}}`},

		{"agent by socket", `{agent: {enabled: true, runtimeClassName: nvidia, extraArgs: [--log-level=debug]}}`},
		{"agent asked by none", `{agent: {enabled: true, exporterBy: none, config: {freeze: true}, devicePlugin: {namespace: kube-system, labelKey: k8s-app, labelValue: nvidia}}}`},

		{"report to the log", `{report: {enabled: true, since: 30d}}`},
		{"report on a claim", `{report: {enabled: true, persistence: {enabled: true, size: 5Gi, storageClassName: fast}, format: json, currency: EUR}}`},
		{"report on their claim", `{report: {enabled: true, persistence: {enabled: true, existingClaim: theirs}, prices: "currency: EUR\n", extraArgs: ["--match=cluster=\"a\""]}}`},

		{"Prometheus with a secret", `{prometheus: {url: "https://mimir.example/prometheus", client: {http: {http_headers: {X-Scope-OrgID: {files: [/etc/gpuscale-secrets/mimir/tenant]}}}}, secrets: [mimir, other]}, report: {enabled: true}}`},
		{"ServiceMonitors", `{agent: {enabled: true}, monitoring: {scrape: ServiceMonitor, labels: {release: kps}, honorLabels: true, interval: 30s, prometheusServiceAccount: {namespace: monitoring, name: prometheus}}}`},
		{"PodMonitors", `{agent: {enabled: true}, monitoring: {scrape: PodMonitor}}`},
		{"annotations", `{agent: {enabled: true}, monitoring: {scrape: annotations}}`},
		{"rules", `{monitoring: {rules: {recording: true, alerts: true}, labels: {role: alerts}}}`},
		{"rules, some otherwise", `{monitoring: {rules: {alerts: true, runbookBase: "https://wiki.example/runbooks/", overrides: {GpuscaleExporterDown: {enabled: false}, GpuscaleAttributionFailing: {threshold: 0.5, for: 1h, severity: info, labels: {team: ml}}}}}}`},
		{"rules without programs", `{adapter: {enabled: false}, autoscaler: {enabled: false}, monitoring: {rules: {alerts: true}}}`},
		{"boards", `{monitoring: {dashboards: {enabled: true, labels: {x: "1"}, annotations: {folder: GPUs}}}}`},
		{"boards elsewhere", `{monitoring: {dashboards: {enabled: true, namespace: kube-public}}}`},
		{"network policies", `{agent: {enabled: true}, report: {enabled: true}, networkPolicy: {enabled: true}}`},
		{"network policies, both ways", `{report: {enabled: true}, networkPolicy: {enabled: true, prometheusNamespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}, egress: {enabled: true, to: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}}}`},
		{"everything", Everything},
	}
}

// Everything enables all that can be on at once.
const Everything = `
exporter: {allocatedPodLabels: true, fractionalGPUs: true, virtualGPUs: true, dra: true, nodeCondition: true, quiesceAnnotation: true, profiling: true, dcgmLibraryDir: /opt/dcgm, counters: "DCGM_FI_DEV_GPU_UTIL, gauge, busy\n"}
adapter: {enabled: true}
autoscaler: {enabled: true, config: {provisioningClasses: [best-effort-atomic-scale-up.autoscaling.x-k8s.io]}, pools: {clusterAPI: true, karpenter: true, scale: [{apiGroup: example.org, resource: herds}]}}
agent: {enabled: true}
report: {enabled: true, persistence: {enabled: true}}
monitoring:
  scrape: ServiceMonitor
  prometheusServiceAccount: {namespace: monitoring, name: prometheus}
  rules: {recording: true, alerts: true}
  dashboards: {enabled: true}
networkPolicy: {enabled: true, egress: {enabled: true}}
`
