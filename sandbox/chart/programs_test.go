package chart

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// runAs starts a program with the arguments and files of its Deployment and the
// token of its service account. extra is what a process needs that a pod has.
func (i *installation) runAs(t *testing.T, component string, extra func(kubeconfig string) []string) {
	t.Helper()
	ctx := t.Context()
	var d appsv1.Deployment
	if err := i.admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: "gpuscale-" + component}, &d); err != nil {
		t.Fatal(err)
	}
	spec := d.Spec.Template.Spec
	if spec.AutomountServiceAccountToken == nil || !*spec.AutomountServiceAccountToken {
		t.Fatal("its pods have no token")
	}
	args := mounted(t, spec, i.t.TempDir(), func(v corev1.Volume) map[string][]byte {
		out := map[string][]byte{}
		switch {
		case v.ConfigMap != nil:
			var c corev1.ConfigMap
			if err := i.admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: v.ConfigMap.Name}, &c); err != nil {
				t.Fatal(err)
			}
			for name, text := range c.Data {
				out[name] = []byte(text)
			}
		case v.Secret != nil:
			var s corev1.Secret
			if err := i.admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: v.Secret.SecretName}, &s); err != nil {
				t.Fatal(err)
			}
			out = s.Data
		}
		return out
	})
	kubeconfig, err := i.cluster.ServiceAccountKubeconfig(ctx, installed, spec.ServiceAccountName)
	if err != nil {
		t.Fatal(err)
	}
	p, err := i.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-" + component, Path: filepath.Join(i.programs, "gpuscale-"+component),
		Args: append(args, extra(kubeconfig)...), Log: i.cluster.LogFile("gpuscale-" + component),
	})
	if err != nil {
		t.Fatal(err)
	}
	i.t.Cleanup(func() {
		p.Stop(3 * time.Second)
		if i.t.Failed() {
			i.t.Logf("%s said last:\n%s", component, strings.Join(proc.Tail(i.cluster.LogFile("gpuscale-"+component), 40), "\n"))
		}
	})
}

func (i *installation) runAdapter(t *testing.T) {
	// No network leads to a pod here: the Service's name is the loopback's, at the port
	// that the chart was told. The certificate is for the Service's name all the same.
	patch := `{"spec":{"type":"ExternalName","externalName":"localhost","selector":null,"clusterIP":null,"clusterIPs":null}}`
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: "gpuscale-adapter"}}
	if err := i.admin.Patch(t.Context(), service, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	i.runAs(t, "adapter", func(kubeconfig string) []string {
		return []string{"--bind-address=127.0.0.1", "--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig}
	})
	i.until(t, late, "the API server finds the adapter in order", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return i.cluster.WaitAPI(ctx, schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1beta1"},
			schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1beta2"}, schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"})
	})
}

func (i *installation) runAutoscaler(t *testing.T, port int) {
	i.runAs(t, "autoscaler", func(kubeconfig string) []string { return []string{"--kubeconfig=" + kubeconfig} })
	i.until(t, late, "the autoscaler is ready", func() error {
		resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}
