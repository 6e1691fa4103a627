package config

// exporterNamespaces are the namespaces in which our manifests and NVIDIA's GPU
// Operator install exporters, and in which only administrators create pods.
func exporterNamespaces() []string {
	return []string{"gpuscale-system", "gpu-operator", "nvidia-gpu-operator", "kube-system"}
}
