package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scrape jobs.
const (
	jobExporter   = "gpuscale-exporter"
	jobServers    = "vllm"
	jobAdapter    = "gpuscale-adapter"
	jobAutoscaler = "gpuscale-autoscaler"
)

// targetsFile lists what Prometheus scrapes, beside its configuration.
const targetsFile = "targets.json"

// ScrapeInterval is short, so that a story takes less time.
const ScrapeInterval = time.Second

// prometheusConfig scrapes everything at ScrapeInterval. Targets come from a file, and each names its job.
// The adapter gets a job of its own once its address is known, since it uses TLS and authentication. The
// checkout's recording rules and alerts are evaluated unchanged: an alert that must be true for ten minutes
// does not fire in a story of three.
func prometheusConfig(root, adapter string) []byte {
	config := `global:
  scrape_interval: ` + ScrapeInterval.String() + `
  scrape_timeout: ` + ScrapeInterval.String() + `
  evaluation_interval: 5s
scrape_configs:
- job_name: sandbox
  honor_labels: true
  file_sd_configs:
  - files: [` + targetsFile + `]
    refresh_interval: 5s
`
	if adapter == "" {
		return []byte(config)
	}
	return []byte(config + `- job_name: ` + jobAdapter + `
  scheme: https
  tls_config: {ca_file: ` + scraperCA + `, server_name: ` + adapterService + `}
  authorization: {credentials_file: ` + scraperToken + `}
  static_configs:
  - targets: [` + adapter + `]
    labels: {namespace: ` + systemNamespace + `}
rule_files: ` + fmt.Sprintf("[%q, %q]\n", filepath.Join(root, "deploy/chart/gpuscale/files/recording.yaml"), filepath.Join(root, "dashboards/alerts/gpuscale-alerts.yaml")))
}

// Files beside Prometheus' configuration.
const (
	scraperCA    = "adapter-ca.crt"
	scraperToken = "scraper.token"
)

// scraperAccount is Prometheus' service account. deploy/manifests declare the role that lets it read the
// adapter's metrics.
const (
	scraperAccount = "prometheus"
	scraperRole    = "gpuscale-metrics-scraper"
)

// scrapeAdapter gives Prometheus a service account, its token and the adapter's CA, and adds the adapter to
// the targets.
func (p *Programs) scrapeAdapter(ctx context.Context, ca []byte) error {
	account := metav1.ObjectMeta{Namespace: systemNamespace, Name: scraperAccount}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: scraperRole},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: scraperRole},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		},
	} {
		if err := create(ctx, p.client, o); err != nil {
			return err
		}
	}
	token, err := p.cluster.Token(ctx, account.Namespace, account.Name)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{scraperCA: ca, scraperToken: []byte(token)} {
		if err := os.WriteFile(filepath.Join(p.cluster.PrometheusDir(), name), text, 0o600); err != nil {
			return fmt.Errorf("writing Prometheus' %s: %w", name, err)
		}
	}
	return p.cluster.ReloadPrometheus(ctx, prometheusConfig(p.binaries.Root, p.adapter))
}
