package testenv

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// Project is another project's program with the objects that its kustomization installs.
type Project struct {
	build.Neighbour
	Program   string
	Folder    string // folder of the kustomization; relative to the module
	Namespace string
	Service   string // Service of its webhooks
}

// Run creates a project's objects and runs its program until the test ends, in place of the Deployment's pod.
// spec receives the port for webhooks and the folder with their certificate.
func (e *Env) Run(t testing.TB, p Project, spec func(hook, certs string) proc.Spec) {
	t.Helper()
	path, err := p.Neighbour.Program(t.Context(), build.Options{Root: e.Root, Out: os.Stderr}, p.Program)
	require.NoError(t, err)
	module, err := p.Dir(t.Context())
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), e.Binaries.Program("kubectl"), "kustomize", ".")
	if cmd.Dir = p.Folder; !filepath.IsAbs(p.Folder) {
		cmd.Dir = filepath.Join(module, p.Folder)
	}
	text, err := cmd.Output()
	require.NoError(t, err)
	objects, err := neighbours.Parse(text)
	require.NoError(t, err)
	hook, certs := FreePort(t), t.TempDir()
	cert, key, ca, err := e.Cluster.ServingCert(p.Service + "." + p.Namespace + ".svc")
	require.NoError(t, err)
	for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		require.NoError(t, os.WriteFile(filepath.Join(certs, name), text, 0o600))
	}
	var asks []*unstructured.Unstructured
	for _, o := range objects {
		switch o.GetKind() {
		case "Deployment", "APIService", "Certificate", "Issuer":
			continue
		case "Service":
			if o.GetName() == p.Service {
				o.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
			}
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			asks = append(asks, o)
		}
		clientConfigs(o.Object, int64(hook), base64.StdEncoding.EncodeToString(ca))
		err := e.CreateObject(t.Context(), o)
		if apierrors.IsAlreadyExists(err) && o.GetKind() == "CustomResourceDefinition" {
			continue // it is the test environment's; its older versions are not served here
		}
		require.NoError(t, err)
		Cleanup(t, func(ctx context.Context) error { return e.Delete(ctx, o.DeepCopy()) })
	}
	require.NoError(t, e.awaitCRDs(t.Context())) // programs exit if their kinds are not served yet
	s := spec(strconv.Itoa(hook), certs)
	s.Name, s.Path, s.Log = p.Program, path, e.Cluster.LogFile(p.Program)
	s.Env = append(s.Env, "KUBECONFIG="+e.Cluster.Kubeconfig())
	Beside(t, s)
	// Objects that make the API server call the program are deleted before the program ends.
	Cleanup(t, func(ctx context.Context) error {
		var errs []error
		for _, o := range asks {
			errs = append(errs, e.Delete(ctx, o.DeepCopy()))
		}
		return errors.Join(errs...)
	})
	await.For(t, Patience, "the webhooks of "+p.Name, func() error {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(hook)))
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// Beside runs a program until the test ends. If the test fails, the program's last lines are shown.
func Beside(t testing.TB, spec proc.Spec) *proc.Process {
	t.Helper()
	p, err := proc.NewGroup(slog.New(slog.DiscardHandler)).Start(spec) // its exit is no failure of the control plane
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n  %s", spec.Name, strings.Join(proc.Tail(spec.Log, 15), "\n  "))
		}
		p.Stop(5 * time.Second)
	})
	return p
}

// clientConfigs makes everything that calls a webhook Service call the local port.
func clientConfigs(in any, port int64, ca string) {
	switch in := in.(type) {
	case []any:
		for _, v := range in {
			clientConfigs(v, port, ca)
		}
	case map[string]any:
		if c, ok := in["clientConfig"].(map[string]any); ok {
			if service, ok := c["service"].(map[string]any); ok {
				service["port"], c["caBundle"] = port, ca
			}
		}
		for _, v := range in {
			clientConfigs(v, port, ca)
		}
	}
}
