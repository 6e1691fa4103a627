package chart

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// scraping is Prometheus' configuration. Who is scraped stands in files beside it: a
// target that leaves its file has gone at once, and the series of a job that leaves
// the configuration stay for five minutes.
type scraping struct {
	programs bool // are scraped, with the adapter's CA in adapterCA
	noRules  bool
	replica  string // an external label; empty: none
	write    string // remote_write, as in the file; empty: none
}

// Scrape jobs over the exporters besides their own. They get empty pages until a test
// breaks something: targets come and go only every five seconds.
const (
	secondJob   = "pods"
	droppingJob = "dropping"
)

var exporterJobs = []string{exporterName, secondJob, droppingJob}

const (
	scraperToken = "scraper.token"
	adapterCA    = "adapter-ca.crt"
	rulesFolder  = "rules"
)

//go:embed testdata/scraping.yaml
var scrapingText string

// config is the file.
func (s *scraping) config() []byte {
	external, rules := "", rulesFolder+"/*.yaml"
	if s.replica != "" {
		external = ", external_labels: {replica: " + s.replica + "}"
	}
	if s.noRules {
		rules = ""
	}
	text := strings.NewReplacer("EXTERNAL", external, "RULES", rules).Replace(scrapingText)
	if !s.programs {
		text, _, _ = strings.Cut(text, "scrape_configs:")
	}
	if s.write != "" {
		text += "remote_write: " + s.write + "\n"
	}
	return []byte(text)
}

// targetsOf is the file of a job's targets.
func targetsOf(job string) string { return job + ".json" }

// writeTargets of a job.
func (b *env) writeTargets(job string, list []cluster.TargetGroup) error {
	return cluster.WriteTargets(filepath.Join(b.Cluster.PrometheusDir(), targetsOf(job)), list)
}

// scrapePrograms lets Prometheus in at the adapter, as docs/install.md says, and
// adds both programs to its targets.
func (b *env) scrapePrograms(ctx context.Context) error {
	token, err := b.Cluster.Token(ctx, installed, prometheusAccount)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.Cluster.PrometheusDir(), scraperToken), []byte(token), 0o600); err != nil {
		return err
	}
	for name, port := range map[string]int{adapterName: b.adapter, autoscalerName: b.scaler} {
		if err := b.scrapeProgram(ctx, name, port); err != nil {
			return err
		}
	}
	if err := b.copyRules(); err != nil {
		return err
	}
	b.scrape.programs = true
	return b.Cluster.ReloadPrometheus(ctx, b.scrape.config())
}

// writeCA replaces what Prometheus trusts at the adapter; it reads the file again.
func (b *env) writeCA(text []byte) error {
	path := filepath.Join(b.Cluster.PrometheusDir(), adapterCA)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// scrapeProgram adds a program to Prometheus' targets. The first of its pods is the one that
// really runs.
func (b *env) scrapeProgram(ctx context.Context, name string, port int) error {
	pods, err := b.pods(ctx, name)
	if err != nil || len(pods) == 0 {
		return fmt.Errorf("no pod of %s: %w", name, err)
	}
	return b.writeTargets(name, []cluster.TargetGroup{{Targets: []string{"127.0.0.1:" + strconv.Itoa(port)}, Labels: map[string]string{"namespace": installed, "pod": pods[0].Name}}})
}

// copyRules gives Prometheus the recording rules and the alerts of the checkout. Both
// look as often as samples come, so that a test need not wait for half a minute.
func (b *env) copyRules() error {
	to := filepath.Join(b.Cluster.PrometheusDir(), rulesFolder)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, file := range []string{"deploy/chart/gpuscale/files/recording.yaml", "dashboards/alerts/gpuscale-alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join(b.Root, file))
		if err != nil {
			return err
		}
		text = []byte(strings.NewReplacer("interval: 30s", "interval: 2s", sources.Matcher, sources.Match([]string{installed})).Replace(string(text)))
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
