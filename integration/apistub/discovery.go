package apistub

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// discover answers the paths that are not about a resource. It has no aggregated discovery; clients
// go on from the plain answer.
func (s *Server) discover(w http.ResponseWriter, r *http.Request) {
	served := s.discoverable()
	p := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var answer any
	switch {
	case len(p) == 1 && (p[0] == "livez" || p[0] == "readyz" || p[0] == "healthz"):
		_, _ = w.Write([]byte("ok"))
		return
	case len(p) == 1 && p[0] == "version":
		answer = version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.0"}
	case len(p) == 1 && p[0] == "api":
		kind := metav1.TypeMeta{Kind: "APIVersions"}
		answer = metav1.APIVersions{TypeMeta: kind, Versions: []string{"v1"}}
	case len(p) == 1 && p[0] == "apis":
		answer = groups(served)
	case len(p) == 2 && p[0] == "api":
		answer = resources(served, schema.GroupVersion{Version: p[1]})
	case len(p) == 3 && p[0] == "apis":
		answer = resources(served, schema.GroupVersion{Group: p[1], Version: p[2]})
	}
	if answer == nil {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

// discoverable returns a sorted copy of the served resources.
func (s *Server) discoverable() []resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []resource
	for _, res := range s.resources {
		all = append(all, resource{gvr: res.gvr, kind: res.kind, namespaced: res.namespaced})
	}
	slices.SortFunc(all, func(a, b resource) int {
		return cmp.Or(
			cmp.Compare(a.gvr.Group, b.gvr.Group),
			cmp.Compare(a.gvr.Version, b.gvr.Version),
			cmp.Compare(a.gvr.Resource, b.gvr.Resource),
		)
	})
	return all
}

func groups(served []resource) metav1.APIGroupList {
	list := metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups:   []metav1.APIGroup{},
	}
	for _, res := range served {
		gv := res.gvr.GroupVersion()
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if gv.Group == "" {
			continue
		}
		last := len(list.Groups) - 1
		if last < 0 || list.Groups[last].Name != gv.Group {
			list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: v})
			last++
		}
		if g := &list.Groups[last]; !slices.Contains(g.Versions, v) {
			g.Versions = append(g.Versions, v)
		}
	}
	return list
}

// resources returns the list of a group and version, or nil if there is none. v1 always has one
// that is not empty, as it is on every API server: clients take an empty one for a refusal.
func resources(served []resource, gv schema.GroupVersion) any {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(), APIResources: []metav1.APIResource{},
	}
	for _, res := range served {
		if res.gvr.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: res.gvr.Resource, SingularName: strings.ToLower(res.kind), Kind: res.kind,
				Namespaced: res.namespaced, Verbs: metav1.Verbs{"get", "list", "watch"},
			})
		}
	}
	if gv == (schema.GroupVersion{Version: "v1"}) {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"},
		})
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	return list
}
