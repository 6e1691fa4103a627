package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// CacheEnv names the environment variable with the cache's folder; the binaries are in its subfolder
// "sandbox". If PreparedEnv is 1, as `make test` sets it, `make prepare` has compiled everything, and the
// tests do not run Go again.
const (
	CacheEnv    = "GPUSCALE_CACHE"
	PreparedEnv = "GPUSCALE_PREPARED"
)

// Options of a build. The zero value is what users get.
type Options struct {
	Root  string    // of the gpuscale checkout; empty: found from the working directory
	Cache string    // folder; empty: $GPUSCALE_CACHE, then <Root>/.cache
	Out   io.Writer // progress; empty: standard error
}

// Paths of what has been built; other fields are empty.
type Paths struct {
	// Bin is a folder with etcd, kube-apiserver, kube-controller-manager,
	// kube-scheduler, kwok and kubectl. It also serves as the
	// BinaryAssetsDirectory of controller-runtime's envtest.
	Bin string

	Prometheus string
	Promtool   string
}

// Program returns the path of a program of the control plane.
func (p Paths) Program(name string) string { return filepath.Join(p.Bin, name) }

// folder compiles a target and returns its folder. Go itself decides whether anything has changed; if not,
// that takes two seconds.
func folder(ctx context.Context, o Options, t target) (string, error) {
	o, err := o.withDefaults()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(o.Cache, t.name)
	if t.prepared && os.Getenv(PreparedEnv) == "1" && t.complete(dir) {
		return dir, nil
	}
	return dir, compile(ctx, o, t, dir)
}

// ControlPlane compiles the control plane.
func ControlPlane(ctx context.Context, o Options) (Paths, error) {
	dir, err := folder(ctx, o, controlPlane)
	return Paths{Bin: dir}, err
}

// PrometheusAdapter returns the path of prometheus-adapter v0.12.0. It is not part of All, since only the
// tests that compare it with our adapter need it.
func PrometheusAdapter(ctx context.Context, o Options) (string, error) {
	dir, err := folder(ctx, o, prometheusAdapter)
	return filepath.Join(dir, prometheusAdapter.output), err
}

// All builds what ControlPlane does, and Prometheus with promtool.
func All(ctx context.Context, o Options) (Paths, error) {
	p, err := ControlPlane(ctx, o)
	if err != nil {
		return p, err
	}
	dir, err := folder(ctx, o, prometheus)
	p.Prometheus, p.Promtool = filepath.Join(dir, "prometheus"), filepath.Join(dir, "promtool")
	return p, err
}

// Programs compiles our own programs and returns the folder with
// gpuscale-exporter, gpuscale-adapter, gpuscale-autoscaler, gpuscale-agent, gpuscale-report
// and gpuscale-dashboards.
func Programs(ctx context.Context, o Options) (string, error) { return folder(ctx, o, programs) }

// Folder returns the folder of everything that is built. Other packages keep their own builds there too.
func Folder(o Options) (string, error) {
	o, err := o.withDefaults()
	return o.Cache, err
}

func (o Options) withDefaults() (Options, error) {
	if o.Out == nil {
		o.Out = os.Stderr
	}
	if o.Root == "" {
		root, err := FindRoot()
		if err != nil {
			return o, err
		}
		o.Root = root
	}
	if o.Cache == "" {
		o.Cache = os.Getenv(CacheEnv)
	}
	if o.Cache == "" {
		o.Cache = filepath.Join(o.Root, ".cache")
	}
	cache, err := filepath.Abs(filepath.Join(o.Cache, "sandbox"))
	if err != nil {
		return o, fmt.Errorf("finding the cache folder: %w", err)
	}
	o.Cache = cache
	return o, nil
}

// FindRoot walks up from the working directory to the folder with gpuscale's go.mod.
func FindRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the gpuscale checkout: %w", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module github.com/gpuscale/gpuscale\n") {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("the sandbox compiles what it runs from the gpuscale sources: run it from inside a checkout")
		}
		dir = filepath.Dir(dir)
	}
}
