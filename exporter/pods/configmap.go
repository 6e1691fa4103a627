package pods

import (
	"context"
	"net/url"
)

// ConfigMap reads one ConfigMap's data by its name.
func (a *API) ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	var object struct{ Data map[string]string }
	path := "/api/v1/namespaces/" + url.PathEscape(namespace) + "/configmaps/" + url.PathEscape(name)
	if err := a.get(ctx, path, nil, &object); err != nil {
		return nil, err
	}
	return object.Data, nil
}
