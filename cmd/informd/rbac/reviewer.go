package rbac

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/engine/rights"
	"github.com/informd/informd/internal/printable"
)

// Reviewer asks an API server what its own account may do. It changes nothing. It is safe for
// concurrent use.
type Reviewer struct {
	http *http.Client
	base *url.URL
}

// NewReviewer makes a Reviewer. over is an HTTP client with config's credentials, as
// rest.HTTPClientFor makes it. NewReviewer sends nothing.
func NewReviewer(config *rest.Config, over *http.Client) (*Reviewer, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the API server's address: %w", err)
	}
	return &Reviewer{http: over, base: base}, nil
}

const (
	atOnce        = 8 // reviews
	reviewTimeout = 10 * time.Second
	maxReview     = 8 << 20 // bytes of an answer
)

// Missing returns those of needs that the account lacks, in their order. It asks for each with a
// SelfSubjectAccessReview of its own. An error means that nothing is known.
func (r *Reviewer) Missing(ctx context.Context, needs []rights.Need) ([]rights.Need, error) {
	lacks := make([]bool, len(needs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, n := range needs {
		group.Go(func() error {
			allowed, err := r.allowed(ctx, n.Right)
			lacks[i] = !allowed
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing []rights.Need
	for i, n := range needs {
		if lacks[i] {
			missing = append(missing, n)
		}
	}
	return missing, nil
}

func (r *Reviewer) allowed(ctx context.Context, right rights.Right) (bool, error) {
	namespace := right.Namespace
	if right.Group == "" && right.Resource == "namespaces" {
		namespace = right.Name // as the API server asks for requests about a namespace
	}
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{
			APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectAccessReview",
		},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: right.Verb, Group: right.Group, Version: "*", Resource: right.Resource,
				Subresource: right.Subresource, Namespace: namespace, Name: right.Name,
			},
		},
	}
	err := r.review(ctx, authorizationv1.SchemeGroupVersion.String(), "selfsubjectaccessreviews", &review)
	return review.Status.Allowed, err
}

// Rules returns the rules that hold for the account in a namespace, which need not exist. If the API
// server does not know all of them, incomplete says why.
func (r *Reviewer) Rules(
	ctx context.Context, namespace string,
) (rules []rights.Granted, incomplete string, err error) {
	review := authorizationv1.SelfSubjectRulesReview{
		TypeMeta: metav1.TypeMeta{
			APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectRulesReview",
		},
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}
	err = r.review(ctx, authorizationv1.SchemeGroupVersion.String(), "selfsubjectrulesreviews", &review)
	for _, rule := range review.Status.ResourceRules {
		rules = append(rules, rights.Granted{
			Verbs: rule.Verbs, Groups: rule.APIGroups, Resources: rule.Resources, Names: rule.ResourceNames,
		})
	}
	if review.Status.Incomplete {
		incomplete = "the API server does not know all rules"
		if e := review.Status.EvaluationError; e != "" {
			incomplete += ": " + printable.Line(e, 300)
		}
	}
	return rules, incomplete, err
}

// User returns the name of the account.
func (r *Reviewer) User(ctx context.Context) (string, error) {
	review := authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{
			APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectReview",
		},
	}
	err := r.review(ctx, authenticationv1.SchemeGroupVersion.String(), "selfsubjectreviews", &review)
	return review.Status.UserInfo.Username, err
}

// review posts a review, and reads the answer into it.
func (r *Reviewer) review(ctx context.Context, groupVersion, resource string, review any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	address := r.base.JoinPath("apis", groupVersion, resource)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := r.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address
		}
		return fmt.Errorf("the API server cannot be reached: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxReview))
	if err != nil {
		return fmt.Errorf("the API server's answer broke off: %w", err)
	}
	if !slices.Contains([]int{http.StatusOK, http.StatusCreated}, resp.StatusCode) {
		var status metav1.Status
		text := http.StatusText(resp.StatusCode)
		if json.Unmarshal(answer, &status) == nil && status.Message != "" {
			text = status.Message
		}
		return fmt.Errorf("the API server does not say what this account may do: %d %s",
			resp.StatusCode, printable.Line(text, 300))
	}
	if err := json.Unmarshal(answer, review); err != nil {
		return errors.New("the API server's answer cannot be read: is there a proxy in between?")
	}
	return nil
}
