package world

import (
	"fmt"
	"os"
	"path/filepath"
)

// rulesFolder is beside Prometheus' configuration, which names it.
const rulesFolder = "rules"

// copyRules gives Prometheus what a cluster's gets: the recording rules and the
// alerts of a checkout, as they are. Their times are not compressed: what must
// last for ten minutes before it fires does not fire in a story of three.
func copyRules(root, prometheus string) error {
	to := filepath.Join(prometheus, rulesFolder)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("copying the rules: %w", err)
	}
	for _, folder := range []string{"dashboards/rules", "dashboards/alerts"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "gpuscale-*.yaml"))
		if err != nil {
			return fmt.Errorf("listing %s: %w", folder, err)
		}
		if len(files) == 0 {
			return fmt.Errorf("there are no rules in %s", folder)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o600)
			}
			if err != nil {
				return fmt.Errorf("copying the rules: %w", err)
			}
		}
	}
	return nil
}
