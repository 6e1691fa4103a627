package chart

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Helm runs the pinned helm over the chart of a checkout.
type Helm struct {
	Binary string
	Chart  string // the chart's folder
	// Kubeconfig is the file of the cluster to install into; empty if no cluster is used.
	Kubeconfig string
}

// Tool returns the path of a tool that make chart-tools builds. If it is missing, the error says how to build
// it.
func Tool(root, name string) (string, error) {
	cache := os.Getenv("GPUSCALE_CACHE")
	if cache == "" {
		cache = filepath.Join(root, ".cache")
	}
	path := filepath.Join(cache, "tools", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not there: make chart-tools builds it (it takes minutes once): %w", name, err)
	}
	return path, nil
}

// New returns Helm over the chart below root.
func New(root string) (Helm, error) {
	binary, err := Tool(root, "helm")
	return Helm{Binary: binary, Chart: filepath.Join(root, "deploy/chart/gpuscale")}, err
}

// Release is what is rendered or installed, and its namespace. Values are YAML.
type Release struct {
	Name, Namespace, Values string
	// Args are additional flags.
	Args []string
}

// Template renders without a cluster.
func (h Helm) Template(ctx context.Context, r Release) ([]*unstructured.Unstructured, error) {
	out, err := h.Run(ctx, r, "template", r.Name, h.Chart)
	if err != nil {
		return nil, err
	}
	return Objects(out)
}

// Install installs or upgrades the release in the cluster of h.Kubeconfig. It does not wait for pods, since
// the cluster has no kubelet.
func (h Helm) Install(ctx context.Context, r Release) error {
	_, err := h.Run(ctx, r, "upgrade", "--install", r.Name, h.Chart)
	return err
}

// Run runs helm with args, followed by the release's namespace, values and flags. The error contains helm's
// output.
func (h Helm) Run(ctx context.Context, r Release, args ...string) ([]byte, error) {
	if r.Namespace != "" {
		args = append(args, "--namespace", r.Namespace)
	}
	if r.Values != "" {
		args = append(args, "--values", "-")
	}
	cmd := exec.CommandContext(ctx, h.Binary, append(args, r.Args...)...)
	cmd.Stdin = strings.NewReader(r.Values)
	// Helm uses nothing of the user's environment: no cluster, no plugins, no repositories.
	home, err := os.MkdirTemp("", "helm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	kubeconfig := h.Kubeconfig
	if kubeconfig == "" {
		kubeconfig = filepath.Join(home, "none")
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "KUBECONFIG=" + kubeconfig}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("helm %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// Objects reads the rendered objects in order. A duplicate key in a map is an error, since different readers
// keep different ones.
func Objects(text []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading what was rendered: %w", err)
		}
		raw, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("reading what was rendered: %w in:\n%s", err, document)
		}
		if string(raw) == "null" {
			continue // comments alone
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("reading what was rendered: %w", err)
		}
		out = append(out, o)
	}
}
