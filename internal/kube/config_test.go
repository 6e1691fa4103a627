package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: t}}]
`

func TestConfigFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(kubeconfig), 0o600))
	cfg, err := Config(Options{Kubeconfig: file, UserAgent: "x/1"})
	require.NoError(t, err)
	if cfg.Host != "https://127.0.0.1:6443" || cfg.QPS != 100 || cfg.Burst != 200 || cfg.UserAgent != "x/1" {
		t.Errorf("got host %q qps %v burst %v agent %q", cfg.Host, cfg.QPS, cfg.Burst, cfg.UserAgent)
	}
}

func TestContext(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	two := strings.Replace(kubeconfig, "contexts: [", `contexts: [{name: d, context: {cluster: other, user: u}}, `, 1)
	two = strings.Replace(two, "clusters: [", `clusters: [{name: other, cluster: {server: "https://127.0.0.1:7443"}}, `, 1)
	require.NoError(t, os.WriteFile(file, []byte(two), 0o600))
	cfg, err := Config(Options{Kubeconfig: file, Context: "d"})
	if err != nil || cfg.Host != "https://127.0.0.1:7443" {
		t.Errorf("got %v, %v", cfg, err)
	}
	if _, err := Config(Options{Kubeconfig: file, Context: "e"}); err == nil {
		t.Error("there is no context e")
	}
}

func TestConfigSaysWhichFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "missing")
	if _, err := Config(Options{Kubeconfig: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("err = %v, want one that names %s", err, file)
	}
}

// TestNotAKubeconfig: a file that is no kubeconfig is named, with what is wrong and what to type, and
// without client-go's Go types. It makes no difference whether --kubeconfig or KUBECONFIG names it.
func TestNotAKubeconfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for content, want := range map[string]string{
		"":                            "it names no cluster",
		"hello: world":                "it names no cluster",
		"just text":                   "it is no YAML object of kind Config",
		"kind: Pod\napiVersion: v1\n": "it is no YAML object of kind Config",
		"a: [b\n":                     "yaml: line 1: did not find expected ',' or ']'",
		"apiVersion: v1\nkind: Config\nclusters: none\n": "clusters cannot be a string",
	} {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		want = "reading kubeconfig " + file + ": " + want + "; `kubectl config view --raw --flatten` prints a kubeconfig"
		if _, err := Config(Options{Kubeconfig: file}); err == nil || err.Error() != want {
			t.Errorf("%q: got  %v\nwant %s", content, err, want)
		}
		t.Setenv("KUBECONFIG", file)
		if _, err := Config(Options{}); err == nil || err.Error() != want && !strings.HasPrefix(err.Error(), "no cluster is configured: give --kubeconfig") {
			t.Errorf("%q in KUBECONFIG: got %v", content, err)
		}
	}
}

// TestNoCluster: without a configured cluster the error names the remedy.
func TestNoCluster(t *testing.T) {
	for name, value := range map[string]string{"KUBERNETES_SERVICE_HOST": "", "KUBECONFIG": filepath.Join(t.TempDir(), "none"), "HOME": t.TempDir()} {
		t.Setenv(name, value)
	}
	_, err := Config(Options{})
	if err == nil || !strings.Contains(err.Error(), "give --kubeconfig") || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
		t.Errorf("got %v", err)
	}
}
