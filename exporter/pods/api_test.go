package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// TestBadKubeconfig: the error names the file and what to do, in no words of client-go.
func TestBadKubeconfig(t *testing.T) {
	for text, says := range map[string]string{
		"": "kubectl config view", "hello": "kubectl config view", "a: [": "kubectl config view", "{apiVersion: v1, kind: Config, clusters: 3}": "kubectl config view", "missing": "no such file",
	} {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if text != "missing" {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		}
		t.Setenv("KUBECONFIG", file)
		_, err := Connect()
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "struct {") || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
