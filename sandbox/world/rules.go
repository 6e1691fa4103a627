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
	for _, name := range []string{"deploy/chart/gpuscale/files/recording.yaml", "dashboards/alerts/gpuscale-alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("copying the rules: %w", err)
		}
	}
	return nil
}
