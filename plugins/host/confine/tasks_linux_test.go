package confine

var tasks = map[string]func(){}
