package config

import (
	"fmt"
	"regexp"
	"slices"
)

// anyNamespace stands for all of them.
const anyNamespace = "*"

// exporterNamespaces are the namespaces in which our manifests and NVIDIA's GPU
// Operator install exporters, and in which only administrators create pods.
func exporterNamespaces() []string {
	return []string{"gpuscale-system", "gpu-operator", "nvidia-gpu-operator", "kube-system"}
}

// exporters is the value of signal.Rule.Exporters: nil trusts every target.
func (c Config) exporters() []string {
	if slices.Contains(c.ExporterNamespaces, anyNamespace) {
		return nil
	}
	return append([]string{}, c.ExporterNamespaces...)
}

var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (c Config) validateExporters() (errs []error) {
	for i, name := range c.ExporterNamespaces {
		if name != anyNamespace && !namespaceName.MatchString(name) {
			errs = append(errs, fmt.Errorf(`exporterNamespaces[%d]: %q is no namespace; "*" stands for all`, i, name))
		}
	}
	return errs
}
