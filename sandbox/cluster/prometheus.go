package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// PrometheusDir is the folder of Prometheus' configuration. Rule files and target lists with relative paths
// in the configuration belong here.
func (c *Cluster) PrometheusDir() string { return filepath.Join(c.dir, "prometheus") }

// PrometheusURL is where Prometheus answers; empty when there is none.
func (c *Cluster) PrometheusURL() string {
	if len(c.opts.Prometheus) == 0 {
		return ""
	}
	return "http://" + local(c.ports.prometheus)
}

// ReloadPrometheus replaces the configuration. If Prometheus rejects it, it returns the reason as an error,
// and the old configuration stays.
func (c *Cluster) ReloadPrometheus(ctx context.Context, config []byte) error {
	if c.PrometheusURL() == "" {
		return errors.New("reloading Prometheus: this cluster was started without one")
	}
	if err := os.WriteFile(c.prometheusFile(), config, 0o600); err != nil {
		return fmt.Errorf("reloading Prometheus: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.PrometheusURL()+"/-/reload", nil)
	if err != nil {
		return fmt.Errorf("reloading Prometheus: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("reloading Prometheus: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return fmt.Errorf("reloading Prometheus: %s", strings.TrimSpace(string(why)))
	}
	return nil
}

func (c *Cluster) prometheusFile() string { return filepath.Join(c.PrometheusDir(), "prometheus.yml") }

func (c *Cluster) startPrometheus() error {
	if len(c.opts.Prometheus) == 0 {
		return nil
	}
	if err := os.WriteFile(c.prometheusFile(), c.opts.Prometheus, 0o600); err != nil {
		return fmt.Errorf("writing Prometheus' configuration: %w", err)
	}
	return c.run(proc.Spec{
		Name: Prometheus,
		Path: c.opts.Binaries.Prometheus,
		Args: append([]string{
			"--config.file=" + c.prometheusFile(),
			"--storage.tsdb.path=" + filepath.Join(c.PrometheusDir(), "data"),
			"--storage.tsdb.retention.time=12h",
			"--web.listen-address=" + local(c.ports.prometheus),
			"--web.enable-lifecycle",
			"--log.level=info",
		}, c.opts.ExtraArgs[Prometheus]...),
		Dir: c.PrometheusDir(),
		Log: c.LogFile(Prometheus),
	})
}

// TargetGroup is one of Prometheus' lists of targets.
type TargetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// WriteTargets replaces the list in a file atomically, since Prometheus may read it at any moment.
func WriteTargets(file string, list []TargetGroup) error {
	body, err := json.Marshal(append([]TargetGroup{}, list...)) // nil would be null, which is no list
	if err == nil {
		err = os.WriteFile(file+".new", body, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("writing Prometheus' targets: %w", err)
	}
	return nil
}
