package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/internal/command"
)

// plugin is the file name by which kubectl finds this program. asPlugin is how users then call it.
const (
	plugin   = "kubectl-gpuscale"
	asPlugin = "kubectl gpuscale"
)

// calledAs is the program's name in texts: the file's name, or the words for kubectl.
func calledAs(file string) string {
	if strings.TrimSuffix(filepath.Base(file), ".exe") == plugin {
		return asPlugin
	}
	return "gpuscale-report"
}

// newPlugin returns the commands for kubectl. There the report is a command like the others.
func newPlugin(out, errs io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use: plugin, Short: "GPU metrics and autoscaling of this cluster", Args: command.NoArgs,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: asPlugin},
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newRunCommand("report", out, errs), newTopCommand(out, errs), newDoctorCommand(out), newExplainCommand(out, errs))
	for _, c := range root.Commands() {
		// In gpuscale-report the report has no command name of its own.
		c.Long = strings.ReplaceAll(strings.ReplaceAll(c.Long, "gpuscale-report --", asPlugin+" report --"), "gpuscale-report ", asPlugin+" ")
	}
	return root
}

// explainers maps a subject to the program that explains it: that program has the data.
var explainers = map[string]string{"pod": "gpuscale-autoscaler", "gang": "gpuscale-autoscaler", "pool": "gpuscale-autoscaler", "hpa": "gpuscale-adapter"}

// newExplainCommand passes its arguments on to the program that explains the subject.
func newExplainCommand(out, errs io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "explain pod|gang|pool|hpa NAME", Short: "Explain why a pod is pending, or an HPA's replicas", DisableFlagParsing: true,
		Long: `Explain a decision. gpuscale-autoscaler explains a pod, a gang or a pool, and
gpuscale-adapter an HPA: that program must be in the folder of this one or on the
PATH. For its flags see ` + asPlugin + ` explain pod --help.
`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
				return cmd.Help()
			}
			if len(args) == 0 || explainers[args[0]] == "" {
				return command.Usage(fmt.Errorf("%s: want pod, gang, pool or hpa, and its name", strings.Join(append([]string{"explain"}, args...), " ")))
			}
			return pass(cmd.Context(), explainers[args[0]], append([]string{"explain"}, args...), out, errs)
		},
	}
}

// pass runs another of our programs and exits with its exit code.
func pass(ctx context.Context, program string, args []string, out, errs io.Writer) error {
	path, err := beside(program)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, errs
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return coded{errWritten, exit.ExitCode()}
	}
	if err != nil {
		return fmt.Errorf("running %s: %w", program, err)
	}
	return nil
}

// beside returns the path of another of our programs.
func beside(program string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if self, err = filepath.EvalSymlinks(self); err == nil {
			if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), program)); err == nil {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is neither in the folder of this program nor on the PATH: download its archive from the release, or run make build, which writes it to .cache/bin", program)
	}
	return path, nil
}
