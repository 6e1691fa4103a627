package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/internal/release/pack"
)

// Where the things to bundle lie in the tree.
const (
	chartDir      = "deploy/chart/gpuscale"
	crdsDir       = "deploy/crds"
	dashboardsDir = "dashboards"
)

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

func (r *release) tree() fs.FS { return os.DirFS(r.source.dir) }

// chart packs the Helm chart as `helm package` would, which itself puts the time
// of packing into the archive.
func (r *release) chart() error {
	files, err := pack.Folder(r.tree(), chartDir, "gpuscale", func(name string) bool {
		return !strings.HasPrefix(path.Base(name), ".") && path.Ext(name) != ".go" && !strings.HasPrefix(name, "testdata/") && !strings.HasPrefix(name, "ci/")
	})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(files, func(f pack.File) bool { return f.Name == "gpuscale/Chart.yaml" })
	if i < 0 {
		return errors.New(chartDir + " has no Chart.yaml")
	}
	if files[i].Data, err = stamp(files[i].Data, r.version); err != nil {
		return err
	}
	data, err := pack.TarGz(files, r.source.at)
	if err != nil {
		return err
	}
	return r.write("gpuscale-"+r.version+".tgz", data)
}

var chartVersions = []*regexp.Regexp{regexp.MustCompile(`(?m)^version:.*$`), regexp.MustCompile(`(?m)^appVersion:.*$`)}

// stamp sets a chart's version and the version of what it installs: they are
// released together.
func stamp(chart []byte, version string) ([]byte, error) {
	for i, re := range chartVersions {
		key := []string{"version", "appVersion"}[i]
		if n := len(re.FindAll(chart, -1)); n != 1 {
			return nil, fmt.Errorf("Chart.yaml has %d lines %s, want one", n, key)
		}
		chart = re.ReplaceAll(chart, fmt.Appendf(nil, "%s: %q", key, version))
	}
	return chart, nil
}

// crds puts them into one file, for `kubectl apply --server-side -f`.
func (r *release) crds() error {
	files, err := pack.Folder(r.tree(), crdsDir, "", func(name string) bool { return path.Ext(name) == ".yaml" })
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New(crdsDir + " has no CRD")
	}
	var out []byte
	for _, f := range files {
		if !strings.HasPrefix(string(f.Data), "---\n") {
			out = append(out, "---\n"...)
		}
		out = append(out, f.Data...)
	}
	return r.write("gpuscale-crds-"+r.version+".yaml", out)
}

func (r *release) dashboards() error {
	name := "gpuscale-dashboards-" + r.version
	boards, err := pack.Folder(r.tree(), dashboardsDir+"/json", name+"/json", func(name string) bool { return path.Ext(name) == ".json" })
	if err != nil {
		return err
	}
	if len(boards) == 0 {
		return errors.New(dashboardsDir + "/json has no board")
	}
	files := boards
	for _, kind := range []string{"rules", "alerts"} {
		rules, err := pack.Folder(r.tree(), dashboardsDir+"/"+kind, name+"/"+kind, func(name string) bool {
			return path.Ext(name) == ".yaml" && !strings.HasPrefix(name, "testdata/")
		})
		if err != nil {
			return err
		}
		if len(rules) == 0 {
			return fmt.Errorf("%s/%s has no file of rules", dashboardsDir, kind)
		}
		files = append(files, rules...)
	}
	data, err := pack.TarGz(files, r.source.at)
	if err != nil {
		return err
	}
	return r.write(name+".tar.gz", data)
}
