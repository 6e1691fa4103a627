// Command gpuscale-adapter serves GPU use and inference queues from Prometheus
// as custom and external metrics, for the HorizontalPodAutoscaler.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/adapter/live"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/kube"
)

func main() {
	ignoreGoneCallers()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gpuscale-adapter:", err)
		stop()
		if command.IsUsage(err) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root, sections := serveCommand(stderr)
	root.AddCommand(rulesCommand(), explainCommand(), simulateCommand())
	command.Setup(root, "gpuscale-adapter")
	inSections(root, sections)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// serveFlags are the flags that the API server library does not have.
type serveFlags struct {
	theirs   paFlags
	own      certificateFlags
	config   string
	logLevel slog.LevelVar
	check    bool
	version  bool
}

// inSections lets the help of the root command print its flags in sections, the program's own first.
func inSections(root *cobra.Command, sections cliflag.NamedFlagSets) {
	var flags strings.Builder
	cliflag.PrintSections(&flags, sections, 80)
	const all = "Flags:\n{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}"
	own := strings.TrimSpace(flags.String())
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), all, "{{if .HasParent}}"+all+"{{else}}"+own+"{{end}}", 1))
}

// serveCommand is the program without a subcommand, and its flags by origin.
func serveCommand(stderr io.Writer) (*cobra.Command, cliflag.NamedFlagSets) {
	base := newBase(stderr)
	var f serveFlags
	var sections cliflag.NamedFlagSets
	flags := sections.FlagSet("own")
	flags.StringVar(&f.config, "config", "", "YAML configuration file (required)")
	flags.BoolVar(&f.check, "check", false, "check the configuration file and exit")
	flags.BoolVar(&f.version, "version", false, "print the version and exit")
	flags.StringVar(&base.RemoteKubeConfigFile, "kubeconfig", "", "kubeconfig file; empty means the pod's service account")
	flags.TextVar(&f.logLevel, "log-level", &f.logLevel, "debug, info, warn or error")
	f.own.add(flags)
	f.theirs.add(sections.FlagSet("prometheus-adapter"))
	sections.FlagSet("Kubernetes API server").AddFlagSet(base.Flags())
	cmd := &cobra.Command{
		Use:   "gpuscale-adapter",
		Short: "Serve metrics from Prometheus to the HorizontalPodAutoscaler",
		Long: `Serve metrics from Prometheus to the HorizontalPodAutoscaler.

One file configures it:
  gpuscale-adapter --config FILE           serve
  gpuscale-adapter --check --config FILE   print what is wrong with the file
prometheus-adapter's flags override the file.

Exit codes:
  0  success, or ended by a signal
  1  failure: the configuration, the cluster or Prometheus
  2  the command line is wrong`,
		// The chart of prometheus-adapter has its program's path before the flags.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "/adapter" {
				args = args[1:]
			}
			return command.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.version {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "gpuscale-adapter version", buildinfo.Version())
				return err
			}
			overlay, err := f.theirs.overlay()
			if err != nil {
				return err
			}
			if f.check {
				if _, err := live.Check(f.config, overlay); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", f.config)
				return err
			}
			if f.theirs.disableHTTP2 {
				base.SecureServing.DisableHTTP2Serving = true
			}
			log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: &f.logLevel}))
			kube.UseLogger(log)
			return serve(cmd.Context(), base, &f.own, f.config, overlay, log)
		},
	}
	cmd.Flags().AddFlagSet(flags)
	cmd.Flags().AddFlagSet(base.Flags()) // before prometheus-adapter's, which have some of their names and no effect
	cmd.Flags().AddFlagSet(sections.FlagSet("prometheus-adapter"))
	return cmd, sections
}

// rulesCommand prints the queries without sending them.
func rulesCommand() *cobra.Command {
	var file string
	var server paFlags
	cmd := &cobra.Command{
		Use:   "rules --config FILE",
		Short: "Print each rule and the query it sends",
		Args:  command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			overlay, err := server.overlay()
			if err != nil {
				return err
			}
			f, err := load(file, overlay)
			if err != nil {
				return err
			}
			return printRules(cmd.OutOrStdout(), f)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "YAML configuration file (required)")
	server.addServer(cmd.Flags())
	return cmd
}

// load reads a configuration whose rules are all good.
func load(file string, overlay func(*config.Config)) (*config.File, error) {
	f, _, err := config.Load(file, overlay)
	if err == nil {
		err = f.Err()
	}
	return f, err
}

func printRules(w io.Writer, f *config.File) error {
	var text strings.Builder
	for _, r := range f.Rules {
		fmt.Fprintf(&text, "%s (%s), backend %s\n  %s\n", r.Name, r.At(f.Name), cmp.Or(r.Rule.Backend, cache.DefaultBackend), r.Rule.Query())
	}
	if theirs := f.Config.PrometheusAdapter; theirs.Enabled() {
		fmt.Fprintf(&text, "The rules of %s, in prometheus-adapter's format, are not listed: their queries depend on what Prometheus has. See /debug/rules of a running adapter.\n", theirs.ConfigFile)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
