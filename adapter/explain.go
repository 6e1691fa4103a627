package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/metrics/pkg/client/custom_metrics"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/adapter/explain"
	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/prom"
)

const reachHelp = `
It reads the API server with your kubeconfig and queries Prometheus directly:
run it on your machine with, for example,
  kubectl -n monitoring port-forward svc/prometheus 9090 &
  --prometheus-url http://localhost:9090
Rules, Prometheus' address and credentials come from --config; without it the
rules are the built-in ones.`

// lookFlags are the flags that explain and simulate share.
type lookFlags struct {
	config, kubeconfig, context string
	server                      paFlags
	hpaFile                     string
	sets                        []string
	tolerance                   float64
	window                      time.Duration
	timeout                     time.Duration
	output                      string
}

func (f *lookFlags) add(flags *pflag.FlagSet, outputs string) {
	flags.StringVar(&f.config, "config", "", "the adapter's YAML configuration file")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the pod's service account in a pod, else $KUBECONFIG, then ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig file")
	f.server.addServer(flags)
	flags.Lookup("prometheus-url").Usage = "query this Prometheus for every rule, in place of the configuration's"
	flags.StringVar(&f.hpaFile, "hpa", "", "YAML file of an HPA to use in place of the cluster's")
	flags.StringArrayVar(&f.sets, "set", nil, "try a change, such as minReplicas=2 or metrics[0].target.averageValue=12 (repeatable)")
	flags.Float64Var(&f.tolerance, "tolerance", hpa.DefaultTolerance, "the controller manager's --horizontal-pod-autoscaler-tolerance")
	flags.DurationVar(&f.window, "downscale-stabilization", hpa.DefaultWindow, "the controller manager's --horizontal-pod-autoscaler-downscale-stabilization")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "of one query, and of one request to the API server")
	flags.StringVarP(&f.output, "output", "o", "text", outputs)
}

func explainCommand() *cobra.Command {
	var f lookFlags
	var viaAPI bool
	cmd := &cobra.Command{
		Use:   "explain hpa NAMESPACE/NAME",
		Short: "Show an HPA's requests, the adapter's answers and their samples, and the replicas that follow",
		Long:  "Show an HPA's requests, the adapter's answers and their samples, and the replicas that follow.\n" + reachHelp,
		Args:  hpaArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.output != "text" && f.output != "json" {
				return fmt.Errorf("--output %q is neither text nor json", f.output)
			}
			l, err := f.look(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			o := explain.Options{Rules: l.rules, Elsewhere: l.elsewhere, Tolerance: f.tolerance, Window: f.window, APIVersion: l.version()}
			if viaAPI {
				o.ViaAPI = l.ask
			}
			r := explain.Explain(cmd.Context(), l.world, o)
			if f.output == "text" {
				return r.Text(cmd.OutOrStdout())
			}
			return explain.WriteJSON(cmd.OutOrStdout(), r)
		},
	}
	f.add(cmd.Flags(), "text or json")
	cmd.Flags().BoolVar(&viaAPI, "via-api", false, "also ask the aggregated metrics API, as the HPA controller does, and show its answers")
	return cmd
}

func hpaArgs(_ *cobra.Command, args []string) error {
	if len(args) != 2 || args[0] != "hpa" || strings.Count(args[1], "/") != 1 || strings.HasPrefix(args[1], "/") || strings.HasSuffix(args[1], "/") {
		return errors.New("name the HPA as in: hpa NAMESPACE/NAME")
	}
	return nil
}

// look is what explain and simulate read.
type look struct {
	world explain.World
	rules []explain.Rule
	// elsewhere names other sources of metrics; "" if the rules are the only one.
	elsewhere string
	kube      kubernetes.Interface
}

func (f *lookFlags) look(ctx context.Context, name string) (*look, error) {
	if f.tolerance < 0 || f.window < 0 || f.timeout <= 0 {
		return nil, errors.New("--tolerance and --downscale-stabilization must not be negative, and --timeout must be positive")
	}
	kube.AwaitForward(ctx, f.server.url)
	l := &look{}
	var err error
	namespace, name, _ := strings.Cut(name, "/")
	if l.rules, l.elsewhere, err = f.rules(namespace); err != nil {
		return nil, err
	}
	rc, err := kube.Config(kube.Options{Kubeconfig: f.kubeconfig, Context: f.context, UserAgent: "gpuscale-adapter/" + buildinfo.Version()})
	if err != nil {
		return nil, err
	}
	rc.Timeout = f.timeout
	var dyn dynamic.Interface
	if l.kube, err = kubernetes.NewForConfig(rc); err == nil {
		dyn, err = dynamic.NewForConfig(rc)
	}
	if err != nil {
		return nil, fmt.Errorf("building the Kubernetes client: %w", err)
	}
	var given *autoscaling.HorizontalPodAutoscaler
	if f.hpaFile != "" {
		raw, err := os.ReadFile(f.hpaFile)
		if err != nil {
			return nil, fmt.Errorf("reading --hpa: %w", err)
		}
		if given, err = explain.ReadHPA(f.hpaFile, raw); err != nil {
			return nil, err
		}
	}
	l.world, err = explain.Cluster{Kube: l.kube, Dynamic: dyn}.Read(ctx, namespace, name, given, func(spec *autoscaling.HorizontalPodAutoscalerSpec) (err error) {
		*spec, err = explain.Set(*spec, f.sets)
		return err
	})
	return l, err
}

// file is the configuration, with the flags over it.
func (f *lookFlags) file() (*config.File, error) {
	overlay, err := f.server.overlay()
	if err != nil {
		return nil, err
	}
	override := func(c *config.Config) {
		if f.server.url != "" { // it replaces every backend
			c.Prometheus.Config = prom.Config{}
			c.Backends = slices.DeleteFunc(c.Backends, func(b config.Backend) bool { return b.Name == cache.DefaultBackend })
		}
		overlay(c)
	}
	switch {
	case f.config == "" && f.server.url == "":
		return nil, errors.New("--config or --prometheus-url is required: no Prometheus is known")
	case f.config == "":
		return config.Read("built in", nil, override)
	}
	file, _, err := config.Load(f.config, override)
	if err == nil {
		err = file.Err()
	}
	return file, err
}

// elsewhere names the sources of metrics that no rule has.
func elsewhere(c config.Config) string {
	var who []string
	if c.PrometheusAdapter.Enabled() {
		who = append(who, "the rules of "+c.PrometheusAdapter.ConfigFile+" (prometheus-adapter's format, not explained here) may serve it")
	}
	if c.Forward.External != nil {
		who = append(who, "the adapter forwards the external ones it does not know")
	}
	return strings.Join(who, ", or ")
}

// rules returns the adapter's rules, each with its Prometheus, to ask about a namespace.
func (f *lookFlags) rules(namespace string) (rules []explain.Rule, others string, err error) {
	file, err := f.file()
	if err != nil {
		return nil, "", err
	}
	clients := map[string]*prom.Client{}
	for _, b := range file.Config.All() {
		if f.server.url != "" && b.Name != cache.DefaultBackend {
			continue // its credentials may be missing on this machine
		}
		c := b.Config
		c.Timeout = f.timeout
		if b.NamespaceParameter != "" {
			c.Parameters = map[string]string{b.NamespaceParameter: namespace}
			maps.Copy(c.Parameters, b.Parameters)
		}
		if clients[b.Name], err = prom.New(c); err != nil {
			return nil, "", fmt.Errorf("backend %s: %w", b.Name, err)
		}
	}
	for _, declared := range file.Rules {
		r := explain.Rule{Rule: declared.Rule, Source: declared.At(f.config)}
		if theirs := file.Config.PrometheusAdapter; theirs.Enabled() {
			r.Source += ", unless " + theirs.ConfigFile + " declares a metric of this name: compare --via-api"
		}
		backend := cmp.Or(declared.Rule.Backend, cache.DefaultBackend)
		if f.server.url != "" {
			backend = cache.DefaultBackend
		}
		if clients[backend] == nil {
			return nil, "", fmt.Errorf("rule %s asks backend %s, which has no address", r.Name, backend)
		}
		r.Querier = clients[backend]
		rules = append(rules, r)
	}
	return rules, elsewhere(file.Config), nil
}

// version is the version of custom.metrics.k8s.io that the HPA controller uses.
func (l *look) version() string {
	v, err := custom_metrics.NewAvailableAPIsGetter(l.kube.Discovery()).PreferredVersion()
	if err != nil {
		return "v1beta2"
	}
	return v.Version
}

// ask sends a request to the aggregated API.
func (l *look) ask(ctx context.Context, path string) string {
	raw, err := l.kube.Discovery().RESTClient().Get().RequestURI(path).DoRaw(ctx)
	if err != nil {
		return "error: " + err.Error() + " " + strings.TrimSpace(string(raw))
	}
	return strings.TrimSpace(string(raw))
}
