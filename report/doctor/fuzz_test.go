package doctor

import (
	"encoding/json"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/cert"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscale/gpuscale/internal/prom"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
)

// Annotations, bundles, files and answers are untrusted text.

func FuzzRecord(f *testing.F) {
	f.Add(`{"config":"c","started":"2026-03-02T08:00:00Z","undo":{"attempts":5}}`, `{"f:metadata":{"f:labels":{"f:nvidia.com/mig.config.state":{}}}}`)
	f.Add(`{`, `[]`)
	f.Fuzz(func(t *testing.T, text, fields string) {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{contract.StateLabel: "pending", contract.ConfigLabel: "c", labelPresent: "true"},
			Annotations:   map[string]string{contract.RecordAnnotation: text, contract.AgentAnnotation: text, contract.TableAnnotation: text, "gpuscale.io/drain": text},
			ManagedFields: []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: now}, FieldsV1: metav1.NewFieldsV1(fields)}}},
			Spec: corev1.NodeSpec{Unschedulable: true}}
		facts := empty()
		facts.Nodes = []*corev1.Node{&n}
		facts.CRDs = []*apiextensionsv1.CustomResourceDefinition{{}}
		if r := Examine(facts, All()); len(r.Checks) == 0 {
			t.Error("no checks")
		}
	})
}

func FuzzAuthorities(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("no certificate"))
	f.Fuzz(func(t *testing.T, bundle []byte) {
		all, err := cert.ParseCertsPEM(bundle)
		if err == nil && (len(all) == 0) {
			t.Errorf("%d certificates", len(all))
		}
		if err == nil {
			validity(all)
		}
	})
}

func TestRetention(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"15d": 15 * 24 * time.Hour, "1y": 365 * 24 * time.Hour, "1w2d": 9 * 24 * time.Hour, "12h30m": 12*time.Hour + 30*time.Minute,
		"30d or 512GiB": window, "10GiB": 0, "0s": 0,
	} {
		if got, _, err := parseRetention(text); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "15", "d", "1d1y", "-5d", "99999999999999d", "forever"} {
		if got, _, err := parseRetention(text); err == nil {
			t.Errorf("%q: %s, want an error", text, got)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("leaderElection: {enabled: false, name: x, leaseDuration: 15s}\npolicy: {freeze: true}")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parseConfig(text); err != nil && c != (config{}) {
			t.Errorf("%v with an error", c)
		}
	})
}

func FuzzCRD(f *testing.F) {
	f.Add(`{"spec":{"versions":[{"name":"v1alpha1","schema":{"openAPIV3Schema":{"properties":{"spec":{"additionalProperties":true}}}}}]}}`)
	f.Add(`{"spec":{"versions":[{"name":"v1alpha1","schema":{"openAPIV3Schema":{"properties":{"status":null,"spec":{"items":{}}}}}}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var c apiextensionsv1.CustomResourceDefinition
		if json.Unmarshal([]byte(text), &c) != nil {
			return
		}
		for _, k := range kinds {
			lacking(&c, k.of)
		}
	})
}

// The adapter's file, and what rules of webhooks and budgets say.
func FuzzGuards(f *testing.F) {
	f.Add("maxAge: 10m", "pods/eviction", "100%", "x509: certificate is valid for a, not b")
	f.Add("maxAge: {}", "*/*", "-5", "is before")
	f.Add("a: &a [*a]", "/", "99999999999999999999%", "")
	f.Fuzz(func(t *testing.T, file, resource, share, message string) {
		facts := empty()
		facts.Deployments = []*appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "gs", Name: "gpuscale-adapter", Labels: map[string]string{labelName: "gpuscale-adapter"}}, Spec: appsv1.DeploymentSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}}}}}}}
		facts.ConfigMaps = []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "gs", Name: "c"}, Data: map[string]string{"config.yaml": file}}}
		facts.Answers[GPUNodes] = prom.Vector{{Value: 1}}
		minimum := intstr.FromString(share)
		facts.Budgets = []*policyv1.PodDisruptionBudget{{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &minimum}}}
		facts.ValidatingWebhooks = []*admissionv1.ValidatingWebhookConfiguration{{Webhooks: []admissionv1.ValidatingWebhook{{
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "n", Name: "n"}},
			Rules:        []admissionv1.RuleWithOperations{{Rule: admissionv1.Rule{APIGroups: []string{"*"}, Resources: []string{resource}}}}}}}}
		var a apiService
		a.Name, a.Spec.Group = "v1beta1."+groupExternal, groupExternal
		if err := json.Unmarshal([]byte(`{"service":{"namespace":"gs","name":"gpuscale-adapter"}}`), &a.Spec); err != nil {
			t.Fatal(err)
		}
		a.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, Reason: "FailedDiscoveryCheck", Message: message}}
		facts.APIServices = []*apiService{&a}
		if r := Examine(facts, All()); len(r.Checks) != len(All()) {
			t.Errorf("%d checks", len(r.Checks))
		}
	})
}
