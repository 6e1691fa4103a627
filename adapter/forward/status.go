package forward

import (
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refuse answers with an API error.
func (f *Forwarder) refuse(w http.ResponseWriter, code int, format string, args ...any) {
	f.count(code)
	reason := metav1.StatusReasonServiceUnavailable
	if code == http.StatusLoopDetected {
		reason = metav1.StatusReasonNotFound
	}
	raw, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	})
	if err != nil { // a struct of texts and a number
		http.Error(w, http.StatusText(code), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(raw)
}
