// Command gpuscale-sandbox runs the whole loop on one machine: a real Kubernetes control plane and
// Prometheus, our programs, and fakes for what the machine lacks.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/e2e"
	"github.com/gpuscale/gpuscale/sandbox/play"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/view"
	"github.com/gpuscale/gpuscale/sandbox/world"
	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := newCommand().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted && !play.Failed(err):
		fmt.Fprintln(os.Stderr, "gpuscale-sandbox: interrupted, nothing is left behind")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "gpuscale-sandbox:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:     "gpuscale-sandbox",
		Short:   "The whole gpuscale loop on one machine, without a GPU",
		Version: buildinfo.Version(),
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newDemoCommand(), newBuildCommand())
	command.Setup(root, "gpuscale-sandbox")
	return root
}

// flags of demo.
type flags struct {
	trace, story, log, out string
	speed                  float64
	keep, realNode         bool
}

func newDemoCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Play a story and draw what happens",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("speed") && !(f.speed > 0 && f.speed <= 1000) {
				return fmt.Errorf("--speed %g: want more than 0 and at most 1000; without it the story's own speed applies", f.speed)
			}
			return demo(cmd.Context(), f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.trace, "trace", "", "request trace in the Azure LLM inference CSV format (default: the story's synthetic one)")
	fs.Float64Var(&f.speed, "speed", 0, "how many seconds of the trace pass in one second (default: the story's)")
	fs.StringVar(&f.story, "story", "", "story in a YAML file (default: the demo)")
	fs.StringVar(&f.out, "out", "", "folder for the capacity report that is written at the end (default: .cache/demo in the checkout)")
	fs.BoolVar(&f.keep, "keep", false, "leave everything running at the end, until Ctrl-C, also when the story failed, and serve the boards")
	fs.BoolVar(&f.realNode, "real-node", false, "join a node of real containers (kubelet, containerd) to the simulated ones; needs root and runc")
	fs.StringVar(&f.log, "log", "", "file for the sandbox's own log")
	return cmd
}

func newBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Compile what the demo needs, and end",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := build.FindRoot()
			if err != nil {
				return err
			}
			_, err = world.Build(cmd.Context(), root, os.Stderr)
			return err
		},
	}
}

func demo(ctx context.Context, f flags) error {
	s, err := readStory(f.story)
	if err != nil {
		return err
	}
	if f.trace != "" { // before compiling, which takes minutes
		if _, err := trace.Load(f.trace); err != nil {
			return err
		}
	}
	if f.realNode {
		if err := world.CheckRealNode(); err != nil {
			return fmt.Errorf("--real-node: %w", err)
		}
	}
	log, closeLog, err := openLog(f.log)
	if err != nil {
		return err
	}
	defer closeLog()
	root, err := build.FindRoot()
	if err != nil {
		return err
	}
	out, err := reportFolder(f.out, root)
	if err != nil {
		return err
	}
	binaries, err := world.Build(ctx, root, os.Stderr)
	if err != nil {
		return err
	}
	if f.realNode {
		if _, err := build.Node(ctx, build.Options{Root: root, Out: os.Stderr}); err != nil {
			return err
		}
	}
	v := view.New(os.Stdout, os.Getenv("NO_COLOR") != "")
	defer v.Close()
	_, err = play.Run(ctx, play.Options{
		Binaries: binaries, Story: s, Trace: f.trace, Speed: f.speed, Keep: f.keep, RealNode: f.realNode, Out: out, View: v, Log: log,
	})
	return err
}

// reportFolder creates the report's folder, before compiling, which takes minutes. By default it is a folder
// that each demo overwrites and make clean removes. The path is absolute, since programs with other working
// directories open it.
func reportFolder(given, root string) (string, error) {
	if given == "" {
		given = filepath.Join(root, ".cache", "demo")
	}
	out, err := filepath.Abs(given)
	if err == nil {
		err = os.MkdirAll(out, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("--out: %w", err)
	}
	return out, nil
}

func readStory(file string) (story.Story, error) {
	if file == "" {
		return story.Parse(e2e.Demo())
	}
	return story.Load(file)
}
