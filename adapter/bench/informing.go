package main

import (
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// everyPod and the like yield the metadata for informers.
func (a *apiServer) everyPod() iter.Seq[metav1.ObjectMeta] {
	return func(yield func(metav1.ObjectMeta) bool) {
		for w := range a.fleet.workloads() {
			for n := range podsPerWorkload {
				if !yield(a.fleet.podMeta(w, n)) {
					return
				}
			}
		}
	}
}

func (a *apiServer) everyReplicaSet() iter.Seq[metav1.ObjectMeta] {
	return func(yield func(metav1.ObjectMeta) bool) {
		for w := range a.fleet.workloads() {
			if !yield(a.fleet.replicaSetMeta(w)) {
				return
			}
		}
	}
}

func (a *apiServer) everyDeployment() iter.Seq[metav1.ObjectMeta] {
	return func(yield func(metav1.ObjectMeta) bool) {
		for w := range a.fleet.workloads() {
			meta := a.fleet.replicaSetMeta(w)
			meta.Name, meta.UID, meta.OwnerReferences = app(w), types.UID(uid('d', w)), nil
			if !yield(meta) {
				return
			}
		}
	}
}

// none is for kinds the fleet has nothing of.
func none() iter.Seq[metav1.ObjectMeta] { return func(func(metav1.ObjectMeta) bool) {} }

// all answers a LIST or WATCH of one kind in all namespaces, in protobuf and
// metadata only, as informers ask for it.
func (a *apiServer) all(w http.ResponseWriter, r *http.Request, objects func() iter.Seq[metav1.ObjectMeta]) {
	if !strings.Contains(r.Header.Get("Accept"), "protobuf;as=PartialObjectMetadata") {
		http.Error(w, "the fake of the API server lists whole namespaces' metadata only", http.StatusNotAcceptable)
		return
	}
	if r.FormValue("watch") != "" {
		follow(w, r, objects)
		return
	}
	a.counts.list.Add(1)
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1000000"}}
	list.APIVersion, list.Kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	for meta := range objects() {
		list.Items = append(list.Items, *partial(meta))
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	_ = protobuf.NewSerializer(nil, nil).Encode(list, w)
}

func partial(meta metav1.ObjectMeta) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: meta}
}

// follow streams the existing objects if the client requests them, sends the
// bookmark that ends them, and then nothing until the client disconnects.
func follow(w http.ResponseWriter, r *http.Request, objects func() iter.Seq[metav1.ObjectMeta]) {
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	frames := protobuf.LengthDelimitedFramer.NewFrameWriter(w)
	send := func(kind watch.EventType, meta metav1.ObjectMeta) bool {
		raw, err := runtime.Encode(protobuf.NewSerializer(nil, nil), partial(meta))
		if err != nil {
			return false
		}
		event := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}
		return protobuf.NewRawSerializer(nil, nil).Encode(event, frames) == nil
	}
	if r.FormValue("sendInitialEvents") == "true" {
		for meta := range objects() {
			if !send(watch.Added, meta) {
				return
			}
		}
		send(watch.Bookmark, metav1.ObjectMeta{ResourceVersion: "1000000", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}})
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// refuseInitialEvents keeps a watch without events open. A client that wants
// to begin with the state of things is sent to LIST, as by servers before 1.32.
func refuseInitialEvents(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("sendInitialEvents") == "true" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity,
			Reason: metav1.StatusReasonInvalid, Message: "sendInitialEvents is forbidden for watch",
		})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	select {
	case <-r.Context().Done():
	case <-time.After(5 * time.Minute): // servers end a watch without events after about that time
	}
}
