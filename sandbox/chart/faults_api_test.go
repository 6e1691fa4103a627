package chart

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Faults between the API server and the adapter. No HPA here uses external
// metrics, so that a fault of theirs causes no other.
const (
	apiServiceKind = "apiregistration.k8s.io/v1/APIService"
	external       = "v1beta1.external.metrics.k8s.io"
	custom         = "v1beta2.custom.metrics.k8s.io"
)

var apiFaults = []fault{
	{
		name:  "an APIService was deleted",
		seed:  func(x *trouble) { x.without(apiServiceKind, "", external) },
		check: "apiservice-missing", objects: []string{"APIService " + external}, typed: true,
	},
	{
		// By itself the adapter puts it right.
		name: "the caBundle is another authority's, and the adapter may not write it", always: true,
		seed: func(x *trouble) {
			x.change("rbac.authorization.k8s.io/v1/ClusterRole", "", adapterName, func(u *unstructured.Unstructured) {
				rules, _, err := unstructured.NestedSlice(u.Object, "rules")
				x.must(err)
				rules = slices.DeleteFunc(rules, func(rule any) bool {
					resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
					return slices.Contains(resources, "apiservices")
				})
				x.must(unstructured.SetNestedSlice(u.Object, rules, "rules"))
			})
			ca, _, _ := authority(x, 10*365*24*time.Hour, servedName)
			x.set(apiServiceKind, "", external, base64.StdEncoding.EncodeToString(ca), "spec", "caBundle")
		},
		check: "apiservice-ca", objects: []string{"APIService " + external}, says: "certificate signed by unknown authority", typed: true,
	},
	{
		name:  "the APIService names a Service that there is not",
		seed:  func(x *trouble) { x.set(apiServiceKind, "", external, "gpuscale-adaptor", "spec", "service", "name") },
		check: "apiservice-ca", objects: []string{"APIService " + external}, says: "gpuscale-adaptor", typed: true,
	},
	{
		name: "KEDA has taken the APIService over",
		seed: func(x *trouble) {
			x.add(keda)
			x.change(apiServiceKind, "", external, func(u *unstructured.Unstructured) {
				spec := u.Object["spec"].(map[string]any)
				spec["service"] = map[string]any{"namespace": "keda", "name": "keda-operator-metrics-apiserver", "port": int64(x.adapter)}
				spec["insecureSkipTLSVerify"] = true
				delete(spec, "caBundle")
			})
		},
		check: "apiservice-owner", objects: []string{"APIService " + external}, says: "keda-operator-metrics-apiserver", typed: true,
	},
	{
		name: "no pod is behind the adapter's Service",
		seed: func(x *trouble) {
			x.change("v1/Service", installed, adapterName, func(u *unstructured.Unstructured) {
				spec := u.Object["spec"].(map[string]any)
				spec["type"], spec["selector"] = "ClusterIP", map[string]any{"app": "mistyped"}
				delete(spec, "externalName")
			})
		},
		check: "apiservice-ca", objects: []string{"Service " + installed + "/" + adapterName}, says: "no ready endpoint",
		brings: []string{"hpa-metric-unknown"}, // the list of what is served cannot be read
	},
	{
		name:  "the adapter's certificate is a Secret's, and about to expire",
		seed:  func(x *trouble) { x.served(10*24*time.Hour, servedName) },
		check: "adapter-certificate", objects: []string{"APIService " + external, "APIService v1beta1.custom.metrics.k8s.io", "APIService " + custom},
	},
}

// keda is what KEDA's APIService would point at. Behind it, here, is our adapter.
const keda = `
apiVersion: v1
kind: Service
metadata: {name: keda-operator-metrics-apiserver, namespace: keda}
spec: {type: ExternalName, externalName: localhost}
`

// servedName is that of the adapter's Service.
const servedName = adapterName + "." + installed + ".svc"

// served gives the adapter a certificate of a Secret, for a name, whose authority has so
// long left.
func (x *trouble) served(left time.Duration, name string) {
	x.t.Helper()
	ca, cert, key := authority(x, left, name)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: "mine"}, Data: map[string][]byte{"tls.crt": cert, "tls.key": key}}
	x.must(x.Admin.Create(x.t.Context(), secret))
	x.cleanup(func(ctx context.Context) error {
		return errors.Join(x.Cluster.StopProgram(adapterName), x.upgrade(ctx), x.startAdapter(ctx), x.Admin.Delete(ctx, secret))
	})
	file := filepath.Join(x.Cluster.Dir(), "ca-of-mine.crt") // a comma, as in names of tests, would end it for Helm
	x.must(os.WriteFile(file, ca, 0o600))
	x.must(errors.Join(
		x.Cluster.StopProgram(adapterName),
		x.upgrade(x.t.Context(), "--force-conflicts", "--set", "adapter.certificate.source=secret", "--set", "adapter.certificate.secretName=mine", "--set-file", "adapter.certificate.caBundle="+file),
		x.writeCA(ca), x.startAdapterProcess(x.t.Context())))
}

// authority makes one that has so long left, and a certificate of its for a name.
func authority(x *trouble, left time.Duration, name string) (ca, cert, key []byte) {
	x.t.Helper()
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	issue := func(template, parent *x509.Certificate, signer *rsa.PrivateKey) ([]byte, *rsa.PrivateKey) {
		own, err := rsa.GenerateKey(rand.Reader, 2048)
		x.must(err)
		if signer == nil {
			signer = own
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(left)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &own.PublicKey, signer)
		x.must(err)
		return der, own
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an old authority"}, IsCA: true, BasicConstraintsValid: true}
	rootDER, rootKey := issue(root, root, nil)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: adapterName}, DNSNames: []string{name}}
	leafDER, leafKey := issue(leaf, root, rootKey)
	return block("CERTIFICATE", rootDER), block("CERTIFICATE", leafDER), block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(leafKey))
}

// Faults of HPAs.
var hpaFaults = []fault{
	{
		name: "an HPA names a metric that there is not", always: true,
		seed: func(x *trouble) {
			x.change(hpaKind, "team", "embed", func(u *unstructured.Unstructured) { metricOf(u)["metric"] = map[string]any{"name": "gpu_bussy"} })
		},
		check: "hpa-metric-unknown", objects: []string{"HorizontalPodAutoscaler team/embed"}, says: "gpu_bussy", typed: true,
	},
	{
		name: "an HPA's target was deleted",
		seed: func(x *trouble) { x.add(fmt.Sprintf(hpa, "orphan", "gone", "gpu_busy", "500m")) },

		check: "hpa-inactive", objects: []string{"HorizontalPodAutoscaler team/orphan"}, says: "FailedGetScale",
	},
	{
		name: "two HPAs over one Deployment",
		seed: func(x *trouble) { x.add(fmt.Sprintf(hpa, "embed-too", "embed", "gpu_busy", "500m")) },

		check: "hpa-two-scalers", objects: []string{"Deployment team/embed"}, says: "embed-too", typed: true,
	},
	{
		name: "a ScaledObject over an HPA's Deployment",
		seed: func(x *trouble) { x.add(scaledObject) },

		check: "hpa-two-scalers", objects: []string{"Deployment team/embed"}, says: "ScaledObject", typed: true,
	},
	{
		name: "an HPA that requests more than its maximum",
		seed: func(x *trouble) {
			x.change(hpaKind, "team", "embed", func(u *unstructured.Unstructured) {
				u.Object["spec"].(map[string]any)["maxReplicas"] = int64(1)
				metricOf(u)["target"] = map[string]any{"type": "AverageValue", "averageValue": "100m"}
			})
		},
		check: "hpa-at-max", objects: []string{"HorizontalPodAutoscaler team/embed"}, says: "TooManyReplicas",
	},
}

// hpa over a Deployment of namespace team: name, target, metric, value.
const hpa = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: %s, namespace: team}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s}
  minReplicas: 1
  maxReplicas: 2
  metrics: [{type: Pods, pods: {metric: {name: %s}, target: {type: AverageValue, averageValue: %s}}}]
---
`

// metricOf is the only metric of an HPA.
func metricOf(u *unstructured.Unstructured) map[string]any {
	return u.Object["spec"].(map[string]any)["metrics"].([]any)[0].(map[string]any)["pods"].(map[string]any)
}

const hpaKind = "autoscaling/v2/HorizontalPodAutoscaler"

// scaledObject is KEDA's, over a CRD that has of KEDA's what is read.
const scaledObject = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: scaledobjects.keda.sh}
spec:
  group: keda.sh
  names: {kind: ScaledObject, plural: scaledobjects, singular: scaledobject}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: embed-queue, namespace: team}
spec:
  scaleTargetRef: {name: embed}
  maxReplicaCount: 8
  triggers: [{type: prometheus, metadata: {query: up}}]
`
