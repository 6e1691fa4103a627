package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// apiServer is a fake of kube-apiserver: it has a configured number of pods,
// answers metrics adapters' requests and counts them. It authorizes everything.
type apiServer struct {
	URL      string
	fleet    fleet
	certs    certificates
	server   *http.Server
	log      *slog.Logger
	workload map[string]int // by namespace/app
	lists    sync.Map       // workload to JSON of its pods
	counts   apiCounts
}

// apiCounts are numbers of requests since the start.
type apiCounts struct {
	list, review atomic.Int64
}

func startAPIServer(f fleet, certs certificates, log *slog.Logger) (*apiServer, error) {
	a := &apiServer{fleet: f, certs: certs, log: log, workload: make(map[string]int, f.workloads())}
	for w := range f.workloads() {
		a.workload[f.namespace(w)+"/"+app(w)] = w
	}
	keys, err := tls.X509KeyPair(certs.server.cert, certs.server.key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate just made: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the fake of the API server: %w", err)
	}
	a.URL = "https://" + listener.Addr().String()
	a.server = &http.Server{
		Handler: a.handler(), ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{keys}},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { _ = a.server.ServeTLS(listener, "", "") }()
	return a, nil
}

func (a *apiServer) stop() { _ = a.server.Close() }

func (a *apiServer) handler() http.Handler {
	mux := http.NewServeMux()
	for path, answer := range discovery() {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, answer) })
	}
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) { a.all(w, r, a.everyPod) })
	mux.HandleFunc("GET /apis/apps/v1/replicasets", func(w http.ResponseWriter, r *http.Request) { a.all(w, r, a.everyReplicaSet) })
	mux.HandleFunc("GET /apis/apps/v1/deployments", func(w http.ResponseWriter, r *http.Request) { a.all(w, r, a.everyDeployment) })
	for _, path := range []string{"/apis/apps/v1/statefulsets", "/apis/batch/v1/jobs"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { a.all(w, r, none) })
	}
	mux.HandleFunc("GET /api/v1/services", func(w http.ResponseWriter, r *http.Request) {
		a.listOrWatch(w, r, corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
	})
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", a.podsIn)
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps", a.configMaps)
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps/{name}", func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusOK, a.trust())
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, _ *http.Request) {
		a.counts.review.Add(1)
		write(w, http.StatusCreated, authorization.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
			Status:   authorization.SubjectAccessReviewStatus{Allowed: true, Reason: "the fake grants everything"},
		})
	})
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusCreated, authentication.TokenReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.log.Debug("the fake API server has no answer", "method", r.Method, "path", r.URL.Path)
		write(w, http.StatusNotFound, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: "the fake of the API server has no " + r.URL.Path,
		})
	})
	return mux
}

// podsIn answers the live LIST that prometheus-adapter sends for each request.
// The fleet's workloads differ in their label app.
func (a *apiServer) podsIn(w http.ResponseWriter, r *http.Request) {
	a.counts.list.Add(1)
	selector, err := labels.Parse(r.FormValue("labelSelector"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name, _ := selector.RequiresExactMatch("app")
	workload, ok := a.workload[r.PathValue("namespace")+"/"+name]
	if !ok {
		write(w, http.StatusOK, corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}})
		return
	}
	body, ok := a.lists.Load(workload)
	if !ok {
		body, _ = a.lists.LoadOrStore(workload, a.fleet.wholePods(workload))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body.([]byte))
}

// configMaps answers with the one that configures an aggregated API server's
// request-header authentication.
func (a *apiServer) configMaps(w http.ResponseWriter, r *http.Request) {
	a.listOrWatch(w, r, corev1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.ConfigMap{a.trust()},
	})
}

// listOrWatch answers for objects that never change.
func (a *apiServer) listOrWatch(w http.ResponseWriter, r *http.Request, list any) {
	if r.FormValue("watch") != "" {
		refuseInitialEvents(w, r)
		return
	}
	a.counts.list.Add(1)
	write(w, http.StatusOK, list)
}

func (a *apiServer) trust() corev1.ConfigMap {
	return corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication", ResourceVersion: "1", UID: "1"},
		Data: map[string]string{
			"client-ca-file": string(a.certs.authority), "requestheader-client-ca-file": string(a.certs.authority),
			"requestheader-allowed-names": `["front-proxy-client"]`, "requestheader-username-headers": `["X-Remote-User"]`,
			"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
			"requestheader-uid-headers": `["X-Remote-Uid"]`,
		},
	}
}

func write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// discovery is the documents that a RESTMapper reads.
func discovery() map[string]any {
	kind := func(name, kind string, namespaced bool) metav1.APIResource {
		return metav1.APIResource{Name: name, SingularName: strings.ToLower(kind), Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list", "watch"}}
	}
	apps := metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"}
	return map[string]any{
		"/version":      map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.1"},
		"/api":          metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis":         metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{apps}, PreferredVersion: apps}}},
		"/api/v1":       metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1", APIResources: []metav1.APIResource{kind("pods", "Pod", true), kind("namespaces", "Namespace", false), kind("nodes", "Node", false), kind("services", "Service", true)}},
		"/apis/apps/v1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "apps/v1", APIResources: []metav1.APIResource{kind("deployments", "Deployment", true), kind("replicasets", "ReplicaSet", true), kind("statefulsets", "StatefulSet", true)}},
	}
}
