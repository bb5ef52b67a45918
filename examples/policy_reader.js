// Reads a policy that `agent.export` wrote, without dependencies, in Node or a browser.
//
//   const policy = read(JSON.parse(text));
//   const action = bestAction(policy, observation);

function read(policy) {
  if (policy.format !== "mdpfn-policy" || policy.version !== 1) throw new Error("not a policy of a version that this reader knows");
  if (policy.kind === "table") policy.row = new Map(policy.states.map((state, row) => [key(state), row]));
  return policy;
}

// The action for an observation; `mask` says which actions exist, if not all of them do.
function bestAction(policy, observation, mask = null) {
  let preference;
  if (policy.bins) {  // a number is known by that of its bin
    const parts = Array.isArray(observation) ? observation : [observation];
    observation = policy.bins.map((edges, i) => edges ? edges.filter(edge => edge <= parts[i]).length : parts[i]);
  }
  if (policy.kind === "table") {
    const row = policy.row.get(key(observation));
    const best = row === undefined ? policy.elsewhere : policy.greedy[row];
    if (!mask || mask[best]) return policy.actions[best];
    preference = row === undefined ? policy.actions.map(() => 1) : policy.policy[row];
  } else {
    const distance = policy.states.map(node => node.reduce((sum, x, d) => sum + ((observation[d] - x) / policy.scale[d]) ** 2, 0));
    const near = [...distance.keys()].sort((a, b) => distance[a] - distance[b]).slice(0, policy.neighbours);
    preference = policy.actions.map((_, a) => near.reduce((sum, i) => sum + policy.q[i][a] / (distance[i] + 1e-9), 0));
  }
  const allowed = policy.actions.map((_, a) => a).filter(a => !mask || mask[a]);
  return policy.actions[allowed.reduce((best, a) => (preference[a] > preference[best] ? a : best))];
}

const key = value => JSON.stringify(value, (_, part) => part && typeof part === "object" && !Array.isArray(part) ? Object.entries(part).sort() : part);

if (typeof module !== "undefined") module.exports = { read, bestAction };
