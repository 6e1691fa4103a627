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

// scraping is Prometheus' configuration. Targets are in separate files: a target that is removed from its
// file disappears at once, while series of a job that is removed from the configuration stay for five
// minutes.
type scraping struct {
	programs bool // programs are scraped, with the adapter's CA in adapterCA
	noRules  bool
	replica  string // external label; empty for none
	write    string // remote_write, as in the file; empty for none
}

// Additional scrape jobs for the exporters. They get empty pages until a test breaks something: adding a
// target would take up to five seconds.
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

// config returns the configuration file.
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

// targetsOf is the name of the file with a job's targets.
func targetsOf(job string) string { return job + ".json" }

// writeTargets writes the targets of a job.
func (b *env) writeTargets(job string, list []cluster.TargetGroup) error {
	return cluster.WriteTargets(filepath.Join(b.Cluster.PrometheusDir(), targetsOf(job)), list)
}

// scrapePrograms allows Prometheus to read the adapter's metrics, as docs/install.md says, and adds both
// programs to the targets.
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

// writeCA replaces the CA for the adapter, which Prometheus reads again.
func (b *env) writeCA(text []byte) error {
	path := filepath.Join(b.Cluster.PrometheusDir(), adapterCA)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// scrapeProgram adds a program to Prometheus' targets. Only the first of its pods really runs.
func (b *env) scrapeProgram(ctx context.Context, name string, port int) error {
	pods, err := b.pods(ctx, name)
	if err != nil || len(pods) == 0 {
		return fmt.Errorf("no pod of %s: %w", name, err)
	}
	return b.writeTargets(name, []cluster.TargetGroup{{Targets: []string{"127.0.0.1:" + strconv.Itoa(port)}, Labels: map[string]string{"namespace": installed, "pod": pods[0].Name}}})
}

// copyRules gives the checkout's recording rules and alerts to Prometheus. They are evaluated as often as
// samples come, so that no test has to wait half a minute.
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
