// Package rights works out which rights in the cluster a plan needs: the least that lets all of its
// sources, rules and handlers do what they say, and who needs each of them.
//
// [Of] reads a plan. It narrows a right to namespaces and names where the manifests fix them: in a
// source's namespaces and field selector, in conditions of a rule's where, or in a constant of an
// action. Where an expression decides, the right is wide, and its reason says why.
//
// [Lines] turns rights into the rules of Roles, and [Manifests] into manifests for kubectl.
// [Surplus] compares rights with what an account may do.
//
// A need is the permission that RBAC checks for a request, which is not always what the request
// says: see [Right]. The package asks no cluster. It does not know whether a custom resource has
// namespaces, nor what a handler does with credentials that somebody else gives it.
package rights
