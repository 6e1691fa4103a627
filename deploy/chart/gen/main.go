// Command gen writes what the Helm chart has from elsewhere: its README and
// schema from values.yaml; CRDs, boards, recording rules and alerts from their
// own folders. The chart holds nothing twice that a person could change once.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpuscale/gpuscale/dashboards/json"
	"github.com/gpuscale/gpuscale/dashboards/rules"
)

func main() {
	root := flag.String("root", ".", "the checkout")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// chartDir is below the checkout.
const chartDir = "deploy/chart/gpuscale"

// write puts all files in place and removes those of files/ that are no more.
func write(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	chart := filepath.Join(root, chartDir)
	err = filepath.WalkDir(filepath.Join(chart, "files"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(chart, path)
		if err != nil {
			return err
		}
		if _, wanted := files[filepath.ToSlash(name)]; !wanted {
			return os.Remove(path)
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for name, text := range files {
		path := filepath.Join(chart, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text) {
			continue
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the content of each file by its name below the chart's folder.
func generate(root string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, chartDir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	values, err := parseValues(text)
	if err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	schema, err := schemaJSON(values)
	if err != nil {
		return nil, err
	}
	alerts, err := alertsFile()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"values.schema.json":   schema,
		"README.md":            readme(values),
		"files/alerts.yaml":    alerts,
		"files/recording.yaml": rules.YAML(),
	}
	boards, err := fs.Glob(json.Files(), "*.json")
	if err != nil {
		return nil, err
	}
	for _, name := range boards {
		if files["files/dashboards/"+name], err = fs.ReadFile(json.Files(), name); err != nil {
			return nil, err
		}
	}
	crds, err := filepath.Glob(filepath.Join(root, "deploy/crds/*.yaml"))
	if err != nil || len(crds) == 0 {
		return nil, fmt.Errorf("no CRDs in deploy/crds: %w", err)
	}
	slices.Sort(crds)
	for _, path := range crds {
		if files["files/crds/"+filepath.Base(path)], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return files, nil
}
