// Writes Kubernetes definitions (CRDs) of Istio and the Gateway API into the folder that is its argument.
//
// The npm packages hold the public schemas as compiled validators, not as text. Each validator is asked with values of every kind, and
// its errors name type, pattern, limits and required keys. A proxy records which keys it looks at: these are the properties.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const istio = (kind) => `@kubernetes-models/istio/networking.istio.io/v1/${kind}`;
const kinds = [
  ["VirtualService", "virtualservices", "networking.istio.io", "v1", istio("VirtualService")],
  ["DestinationRule", "destinationrules", "networking.istio.io", "v1", istio("DestinationRule")],
  ["HTTPRoute", "httproutes", "gateway.networking.k8s.io", "v1",
    "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute"],
  ["XBackendTrafficPolicy", "xbackendtrafficpolicies", "gateway.networking.x-k8s.io", "v1alpha1",
    "@kubernetes-models/gateway-api/gateway.networking.x-k8s.io/v1alpha1/XBackendTrafficPolicy"],
];

// Of no type that JSON has: every check of a type fails on it.
const alien = () => {};
// The deepest path of these kinds has fewer keys: a schema that refers to itself would not end.
const DEEPEST = 24;

const folder = process.argv[2];
for (const [kind, plural, group, version, module] of kinds) {
  const { [kind]: Model } = await import(module);
  const errors = (spec) => {
    const object = new Model({ metadata: { name: "any" } });
    object.spec = spec;
    try {
      object.validate();
      return [];
    } catch (error) {
      if (!Array.isArray(error.errors)) throw error;
      return error.errors;
    }
  };
  const spec = schema(errors, [], kind);
  const definition = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: {
      name: `${plural}.${group}`,
      // The server asks for it where a group of its own project is defined.
      annotations: { "api-approved.kubernetes.io": "unapproved, for a test" },
    },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, plural, listKind: `${kind}List`, singular: kind.toLowerCase() },
      versions: [{
        name: version, served: true, storage: true,
        schema: { openAPIV3Schema: { type: "object", required: ["spec"], properties: { spec } } },
      }],
    },
  };
  writeFileSync(join(folder, `${plural}.json`), JSON.stringify(definition, null, 1));
}

// The schema of what stands at `path` in the spec.
function schema(errors, path, kind) {
  if (path.length > DEEPEST) throw new Error(`${kind}: /${path.join("/")} is too deep`);
  const here = "/spec" + path.map((key) => "/" + key.replace(/~/g, "~0").replace(/\//g, "~1")).join("");
  const ask = (value) => errors(path.reduceRight((inner, key) => (key === "0" ? [inner] : { [key]: inner }), value))
    .filter((error) => error.instancePath === here);
  const said = (value, keyword) => ask(value).find((error) => error.keyword === keyword)?.params;
  const types = [...new Set(ask(alien).filter((error) => error.keyword === "type").map((error) => error.params.type))];
  if (types.length !== 1) {
    const number = types.includes("integer") && types.includes("string");
    return number ? { "x-kubernetes-int-or-string": true } : { "x-kubernetes-preserve-unknown-fields": true };
  }
  const found = { type: types[0] };
  const take = (key, value) => value !== undefined && (found[key] = value);
  switch (found.type) {
    case "object": {
      const keys = new Set();
      let all = false;
      ask(new Proxy({}, {
        get: (_, key) => void (typeof key === "string" && keys.add(key)),
        ownKeys: () => ((all = true), []),
      }));
      keys.delete("toJSON");
      if (keys.size > 0) {
        found.properties = {};
        for (const key of [...keys].sort()) found.properties[key] = schema(errors, [...path, key], kind);
        const required = ask({}).filter((error) => error.keyword === "required" && error.schemaPath === "#/required");
        if (required.length > 0) found.required = required.map((error) => error.params.missingProperty).sort();
      } else if (all) {
        found.additionalProperties = schema(errors, [...path, "any"], kind);
      } else {
        found["x-kubernetes-preserve-unknown-fields"] = true;
      }
      break;
    }
    case "array":
      found.items = schema(errors, [...path, "0"], kind);
      take("maxItems", said(Array(2000).fill(alien), "maxItems")?.limit);
      take("minItems", said([], "minItems")?.limit);
      break;
    case "string":
      take("enum", said("\u0000", "enum")?.allowedValues);
      take("pattern", said("\u0000", "pattern")?.pattern);
      take("maxLength", said("x".repeat(100000), "maxLength")?.limit);
      take("minLength", said("", "minLength")?.limit);
      // Kubernetes 1.20, built by a newer Go than its own, takes an empty string for null.
      if (ask("").length === 0) found.nullable = true;
      break;
    default:
      take("minimum", said(-1e15, "minimum")?.limit);
      take("maximum", said(1e15, "maximum")?.limit);
  }
  return found;
}
