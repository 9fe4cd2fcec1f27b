package client

import (
	"regexp"
	"slices"
	"strings"
)

// cause is a reason for which an action fails, and what to do about it.
type cause struct {
	said *regexp.Regexp // matches how failures and dead letters report it
	todo string         // $1 and $2 stand for what said captures
}

// ofAction matches the beginning of what an action failed with: its verb and its target.
const ofAction = `\b(?:(?:apply|create|patch|delete) of|an Event about) \S+ \S+: `

// forbidden matches the beginning of a refusal by authorization or admission.
const forbidden = `403 Forbidden: [\w.-]+(?: "[^"]*")? is forbidden: `

// causes has the reasons for which an action fails, the surest sign first. It is the only place that
// advises about them.
var causes = []cause{
	{regexp.MustCompile(forbidden + `[Uu]ser "`), "grant the permission"},
	{regexp.MustCompile(forbidden + `exceeded quota:`),
		"raise the quota of the namespace, or free some of it"},
	{regexp.MustCompile(forbidden + `status unknown for quota:`),
		"wait until the cluster has counted what the quota covers; if it never does, " +
			"look at its kube-controller-manager"},
	{regexp.MustCompile(`\d{3} [A-Z][\w ]+: admission webhook "([^"]*)" denied the request`),
		"change the object, or the rules of the cluster's webhook $1"},
	{regexp.MustCompile(`500 Internal Server Error: (?:Internal error occurred: )?` +
		`failed calling webhook "([^"]*)"`),
		"mend the cluster's webhook $1, which cannot be called"},
	{regexp.MustCompile(`\d{3} [A-Z][\w ]+: (?:[\w.-]+ "[^"]*" is forbidden: )?` +
		`(?:ValidatingAdmissionPolicy|policy) ['"]([^'"]*)['"]` +
		`(?: with binding '[^']*')? denied request`),
		"change the object, or the cluster's policy $1"},
	{regexp.MustCompile(forbidden + `violates PodSecurity "([^"]*)"`),
		"change the Pod, or the level $1 that its namespace enforces"},
	{regexp.MustCompile(forbidden + `unable to create new content in namespace (\S+) because it is ` +
		`being terminated`),
		"wait until the namespace $1 is gone, then create it again: nothing can be created in it now"},
	{regexp.MustCompile(forbidden), "change the object, or what in the cluster does not admit it"},
	{regexp.MustCompile(`namespace (\S+) does not exist`), "make the namespace $1"},
	{regexp.MustCompile(ofAction + `the cluster does not serve (\S+)`),
		"install what serves $1, or mend the resource of the action"},
	{regexp.MustCompile(`422 Unprocessable Entity: .*?(?:field is immutable|cannot change roleRef|` +
		`may not change once set|spec is immutable after creation|` +
		`(?:pod updates may not|updates to \w+ spec for fields other than) )`),
		"leave the field as it is, or delete the object: the next apply creates it again"},
	{regexp.MustCompile(`the object exists and the rule did not apply it, and prune would delete it`),
		"do one of these"},
	{regexp.MustCompile(`it exists already, and the rule did not create it`),
		"choose another name, delete the object, or use apply"},
	{regexp.MustCompile(ofAction + `401 Unauthorized`), "renew informd's credentials"},
	{regexp.MustCompile(ofAction + `rejected: (?:4\d\d|500) [A-Z]`),
		"mend the action: the API server never takes it as it is"},
	{regexp.MustCompile(ofAction + `(?:429|5\d\d) [A-Z]|: the API server cannot be reached: `),
		"look at the API server"},
}

// toMend returns what to do about a failure of actions, or "" if its reason does not tell. A reason may
// be about several actions. Each part of it counts for the first cause that it shows.
func toMend(reason string) string {
	var todo []string
	for _, c := range causes {
		for _, m := range c.said.FindAllStringSubmatchIndex(reason, -1) {
			text := string(c.said.ExpandString(nil, c.todo, reason, m))
			if !slices.Contains(todo, text) {
				todo = append(todo, text)
			}
		}
		reason = c.said.ReplaceAllString(reason, "")
	}
	return strings.Join(todo, "; ")
}
