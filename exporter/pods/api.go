package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// API is a client of the Kubernetes API for the few requests of a node agent, all about its
// own node's objects. It has no clientset, whose types take eleven megabytes on each node.
type API struct {
	rest.Interface
	Metadata metadata.Interface
}

// Timeout bounds one request.
const Timeout = 10 * time.Second

// Connect returns the API of the kubeconfig that KUBECONFIG names, or else of the pod's
// service account.
func Connect() (*API, error) {
	if file := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); file != "" {
		to, err := clientcmd.BuildConfigFromFlags("", file)
		if _, unread := errors.AsType[*fs.PathError](err); err != nil && !unread { // client-go's text quotes Go types
			err = errors.New("it is no kubeconfig that names a cluster; `kubectl config view --raw --flatten` prints one")
		}
		if err != nil {
			return nil, fmt.Errorf("KUBECONFIG %s: %w", file, err)
		}
		return NewAPI(to)
	}
	to, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("not in a cluster: no service account, and KUBECONFIG is not set: %w", err)
	}
	return NewAPI(to)
}

// NewAPI returns the API of a REST configuration.
func NewAPI(to *rest.Config) (*API, error) {
	to = rest.CopyConfig(to)
	to.UserAgent = "gpuscale-exporter"
	scheme := runtime.NewScheme() // to decode errors
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	to.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	objects, err := rest.UnversionedRESTClientFor(to)
	if err != nil {
		return nil, fmt.Errorf("the API server at %s: %w", to.Host, err)
	}
	nodes, err := metadata.NewForConfig(to)
	if err != nil {
		return nil, fmt.Errorf("the API server at %s: %w", to.Host, err)
	}
	return &API{objects, nodes}, nil
}

// Read decodes the object or list at a path into out.
func (a *API) Read(ctx context.Context, path string, query url.Values, out any) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	request := a.Get().AbsPath(path)
	for name := range query {
		request = request.Param(name, query.Get(name))
	}
	answer := request.Do(ctx)
	err := answer.Error() // with the server's message, which Raw's has not
	if err == nil {
		content, _ := answer.Raw()
		err = json.Unmarshal(content, out)
	}
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// ofNode selects a node's own objects.
func ofNode(node string) url.Values {
	// "0" lets the API server answer from its cache instead of etcd.
	return url.Values{"fieldSelector": {"spec.nodeName=" + node}, "resourceVersion": {"0"}}
}
