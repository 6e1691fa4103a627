package config

// exporterNamespaces is the namespace in which our manifests install the exporter.
// No other is trusted unless an administrator lists it: a user who creates a namespace
// of a trusted name would be believed about every pod.
func exporterNamespaces() []string { return []string{"gpuscale-system"} }
