package apistub

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (s *Server) get(w http.ResponseWriter, res *resource, q request) error {
	s.mu.Lock()
	d := res.get(q.namespace, q.name)
	s.mu.Unlock()
	if d == nil {
		return apierrors.NewNotFound(q.gvr.GroupResource(), q.name)
	}
	writeJSON(w, http.StatusOK, res.json(d))
	return nil
}

// list answers with the objects of one moment: now, or at resourceVersion for an exact match, or
// that of the first page for later pages. As in kube-apiserver's cache, resourceVersion 0 means no
// pages.
func (s *Server) list(w http.ResponseWriter, r *http.Request, res *resource, q request) error {
	end, err := s.beginListing(r)
	if err != nil {
		return err
	}
	defer end()
	asked, err := parseVersion(q.opts.ResourceVersion)
	if err != nil {
		return err
	}
	after := "" // the last key of the page before
	exact := q.opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact
	if q.opts.Continue != "" {
		if asked, after, err = parseToken(q.opts.Continue); err != nil {
			return err
		}
		exact = true
	}

	s.mu.Lock()
	rv := s.rv
	if asked > rv {
		s.mu.Unlock()
		return tooLarge(asked, rv)
	}
	if exact {
		rv = asked
	}
	objects, ok := res.at(rv, after, &q)
	floor := res.oldest()
	s.mu.Unlock()
	if !ok && exact {
		return tooOld(rv, floor)
	}

	meta := metav1.ListMeta{ResourceVersion: format(rv)}
	size := -1 // no bound
	if limit := int(q.opts.Limit); limit > 0 && q.opts.ResourceVersion != "0" {
		if last, more := objects.page(limit); more {
			size, meta.Continue = limit, token(rv, last)
			if rest := int64(objects.count - limit); rest > 0 {
				meta.RemainingItemCount = &rest
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 64<<10)
	defer out.Flush()
	fmt.Fprintf(out, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`,
		res.kind+"List", q.gvr.GroupVersion(), encode(meta))
	n := 0
	for _, d := range objects.docs {
		if n == size || r.Context().Err() != nil {
			break
		}
		if n > 0 {
			out.WriteByte(',')
		}
		if builtIn(q.gvr.Group) {
			out.Write(d.body)
		} else {
			out.WriteString(res.head)
			out.Write(d.body[1:])
		}
		n++
	}
	out.WriteString("]}")
	return nil
}

// builtIn reports whether a group belongs to Kubernetes itself. The items of its lists have no
// apiVersion and kind; those of custom resources have.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

func token(rv int64, after string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", rv, after))
}

func parseToken(text string) (rv int64, after string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%d %s", &rv, &after)
	}
	if err != nil {
		return 0, "", apierrors.NewBadRequest("continue key is not valid")
	}
	return rv, after, nil
}
