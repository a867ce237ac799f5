var he, k, Xe, D, Ae, Ye, Ze, me, re, G, et, Se, we, xe, tt, ae = {}, ce = [], vt = /acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i, pe = Array.isArray;
function U(e, t) {
  for (var n in t) e[n] = t[n];
  return e;
}
function Te(e) {
  e && e.parentNode && e.parentNode.removeChild(e);
}
function bt(e, t, n) {
  var o, s, i, c = {};
  for (i in t) i == "key" ? o = t[i] : i == "ref" ? s = t[i] : c[i] = t[i];
  if (arguments.length > 2 && (c.children = arguments.length > 3 ? he.call(arguments, 2) : n), typeof e == "function" && e.defaultProps != null) for (i in e.defaultProps) c[i] === void 0 && (c[i] = e.defaultProps[i]);
  return ie(e, c, o, s, null);
}
function ie(e, t, n, o, s) {
  var i = { type: e, props: t, key: n, ref: o, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: s ?? ++Xe, __i: -1, __u: 0 };
  return s == null && k.vnode != null && k.vnode(i), i;
}
function z(e) {
  return e.children;
}
function oe(e, t) {
  this.props = e, this.context = t;
}
function B(e, t) {
  if (t == null) return e.__ ? B(e.__, e.__i + 1) : null;
  for (var n; t < e.__k.length; t++) if ((n = e.__k[t]) != null && n.__e != null) return n.__e;
  return typeof e.type == "function" ? B(e) : null;
}
function yt(e) {
  if (e.__P && e.__d) {
    var t = e.__v, n = t.__e, o = [], s = [], i = U({}, t);
    i.__v = t.__v + 1, k.vnode && k.vnode(i), Me(e.__P, i, t, e.__n, e.__P.namespaceURI, 32 & t.__u ? [n] : null, o, n ?? B(t), !!(32 & t.__u), s), i.__v = t.__v, i.__.__k[i.__i] = i, st(o, i, s), t.__e = t.__ = null, i.__e != n && nt(i);
  }
}
function nt(e) {
  if ((e = e.__) != null && e.__c != null) return e.__e = e.__c.base = null, e.__k.some(function(t) {
    if (t != null && t.__e != null) return e.__e = e.__c.base = t.__e;
  }), nt(e);
}
function ke(e) {
  (!e.__d && (e.__d = !0) && D.push(e) && !de.__r++ || Ae != k.debounceRendering) && ((Ae = k.debounceRendering) || Ye)(de);
}
function de() {
  try {
    for (var e, t = 1; D.length; ) D.length > t && D.sort(Ze), e = D.shift(), t = D.length, yt(e);
  } finally {
    D.length = de.__r = 0;
  }
}
function rt(e, t, n, o, s, i, c, d, u, l, h) {
  var _, a, p, y, w, g, v = o && o.__k || ce, f = t.length;
  for (u = wt(n, t, v, u, f), _ = 0; _ < f; _++) (p = n.__k[_]) != null && (a = p.__i != -1 && v[p.__i] || ae, p.__i = _, g = Me(e, p, a, s, i, c, d, u, l, h), y = p.__e, p.ref && a.ref != p.ref && (a.ref && Pe(a.ref, null, p), h.push(p.ref, p.__c || y, p)), w == null && y != null && (w = y), 4 & p.__u ? (u = it(p, u, e), a.__e && (a.__e = null)) : typeof p.type == "function" && g !== void 0 ? u = g : y && (u = y.nextSibling), p.__u &= -7);
  return n.__e = w, u;
}
function wt(e, t, n, o, s) {
  var i, c, d, u, l, h = n.length, _ = h, a = 0;
  for (e.__k = new Array(s), i = 0; i < s; i++) (c = t[i]) != null && typeof c != "boolean" && typeof c != "function" ? (typeof c == "string" || typeof c == "number" || typeof c == "bigint" || c.constructor == String ? c = e.__k[i] = ie(null, c, null, null, null) : pe(c) ? c = e.__k[i] = ie(z, { children: c }, null, null, null) : c.constructor === void 0 && c.__b > 0 ? c = e.__k[i] = ie(c.type, c.props, c.key, c.ref ? c.ref : null, c.__v) : e.__k[i] = c, u = i + a, c.__ = e, c.__b = e.__b + 1, d = null, (l = c.__i = xt(c, n, u, _)) != -1 && (_--, (d = n[l]) && (d.__u |= 2)), d == null || d.__v == null ? (l == -1 && (s > h ? a-- : s < h && a++), typeof c.type != "function" && (c.__u |= 4)) : l != u && (l == u - 1 ? a-- : l == u + 1 ? a++ : (l > u ? a-- : a++, c.__u |= 4))) : e.__k[i] = null;
  if (_) for (i = 0; i < h; i++) (d = n[i]) != null && (2 & d.__u) == 0 && (d.__e == o && (o = B(d)), at(d, d));
  return o;
}
function it(e, t, n) {
  var o, s;
  if (typeof e.type == "function") {
    for (o = e.__k, s = 0; o && s < o.length; s++) o[s] && (o[s].__ = e, t = it(o[s], t, n));
    return t;
  }
  e.__e != t && (t && e.type && !t.parentNode && (t = B(e)), t = n.insertBefore(e.__e, t || null));
  do
    t = t && t.nextSibling;
  while (t != null && t.nodeType == 8);
  return t;
}
function xt(e, t, n, o) {
  var s, i, c, d = e.key, u = e.type, l = t[n], h = l != null && (2 & l.__u) == 0;
  if (l === null && d == null || h && d == l.key && u == l.type) return n;
  if (o > (h ? 1 : 0)) {
    for (s = n - 1, i = n + 1; s >= 0 || i < t.length; ) if ((l = t[c = s >= 0 ? s-- : i++]) != null && (2 & l.__u) == 0 && d == l.key && u == l.type) return c;
  }
  return -1;
}
function Ne(e, t, n) {
  t[0] == "-" ? e.setProperty(t, n ?? "") : e[t] = n == null ? "" : typeof n != "number" || vt.test(t) ? n : n + "px";
}
function te(e, t, n, o, s) {
  var i, c;
  e: if (t == "style") if (typeof n == "string") e.style.cssText = n;
  else {
    if (typeof o == "string" && (e.style.cssText = o = ""), o) for (t in o) n && t in n || Ne(e.style, t, "");
    if (n) for (t in n) o && n[t] == o[t] || Ne(e.style, t, n[t]);
  }
  else if (t[0] == "o" && t[1] == "n") i = t != (t = t.replace(et, "$1")), c = t.toLowerCase(), t = c in e || t == "onFocusOut" || t == "onFocusIn" ? c.slice(2) : t.slice(2), e.l || (e.l = {}), e.l[t + i] = n, n ? o ? n[G] = o[G] : (n[G] = Se, e.addEventListener(t, i ? xe : we, i)) : e.removeEventListener(t, i ? xe : we, i);
  else {
    if (s == "http://www.w3.org/2000/svg") t = t.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
    else if (t != "width" && t != "height" && t != "href" && t != "list" && t != "form" && t != "tabIndex" && t != "download" && t != "rowSpan" && t != "colSpan" && t != "role" && t != "popover" && t in e) try {
      e[t] = n ?? "";
      break e;
    } catch {
    }
    typeof n == "function" || (n == null || n === !1 && t[4] != "-" ? e.removeAttribute(t) : e.setAttribute(t, t == "popover" && n == 1 ? "" : n));
  }
}
function Le(e) {
  return function(t) {
    if (this.l) {
      var n = this.l[t.type + e];
      if (t[re] == null) t[re] = Se++;
      else if (t[re] < n[G]) return;
      return n(k.event ? k.event(t) : t);
    }
  };
}
function Me(e, t, n, o, s, i, c, d, u, l) {
  var h, _, a, p, y, w, g, v, f, m, x, P, b, N, L, J, $ = t.type;
  if (t.constructor !== void 0) return null;
  128 & n.__u && (u = !!(32 & n.__u), i = [d = t.__e = n.__e]), (h = k.__b) && h(t);
  e: if (typeof $ == "function") {
    _ = c.length;
    try {
      if (f = t.props, m = $.prototype && $.prototype.render, x = (h = $.contextType) && o[h.__c], P = h ? x ? x.props.value : h.__ : o, n.__c ? v = (a = t.__c = n.__c).__ = a.__E : (m ? t.__c = a = new $(f, P) : (t.__c = a = new oe(f, P), a.constructor = $, a.render = $t), x && x.sub(a), a.state || (a.state = {}), a.__n = o, p = a.__d = !0, a.__h = [], a._sb = []), m && a.__s == null && (a.__s = a.state), m && $.getDerivedStateFromProps != null && (a.__s == a.state && (a.__s = U({}, a.__s)), U(a.__s, $.getDerivedStateFromProps(f, a.__s))), y = a.props, w = a.state, a.__v = t, p) m && $.getDerivedStateFromProps == null && a.componentWillMount != null && a.componentWillMount(), m && a.componentDidMount != null && a.__h.push(a.componentDidMount);
      else {
        if (m && $.getDerivedStateFromProps == null && f !== y && a.componentWillReceiveProps != null && a.componentWillReceiveProps(f, P), t.__v == n.__v || !a.__e && a.shouldComponentUpdate != null && a.shouldComponentUpdate(f, a.__s, P) === !1) {
          t.__v != n.__v && (a.props = f, a.state = a.__s, a.__d = !1), t.__e = n.__e, t.__k = n.__k, t.__k.some(function(F) {
            F && (F.__ = t);
          }), ce.push.apply(a.__h, a._sb), a._sb = [], a.__h.length && c.push(a), d = B(n);
          break e;
        }
        a.componentWillUpdate != null && a.componentWillUpdate(f, a.__s, P), m && a.componentDidUpdate != null && a.__h.push(function() {
          a.componentDidUpdate(y, w, g);
        });
      }
      if (a.context = P, a.props = f, a.__P = e, a.__e = !1, b = k.__r, N = 0, m) a.state = a.__s, a.__d = !1, b && b(t), h = a.render(a.props, a.state, a.context), ce.push.apply(a.__h, a._sb), a._sb = [];
      else do
        a.__d = !1, b && b(t), h = a.render(a.props, a.state, a.context), a.state = a.__s;
      while (a.__d && ++N < 25);
      a.state = a.__s, a.getChildContext != null && (o = U(U({}, o), a.getChildContext())), m && !p && a.getSnapshotBeforeUpdate != null && (g = a.getSnapshotBeforeUpdate(y, w)), L = h != null && h.type === z && h.key == null ? lt(h.props.children) : h, d = rt(e, pe(L) ? L : [L], t, n, o, s, i, c, d, u, l), a.base = t.__e, t.__u &= -161, a.__h.length && c.push(a), v && (a.__E = a.__ = null);
    } catch (F) {
      if (c.length = _, t.__v = null, u || i != null) {
        if (F.then) {
          for (t.__u |= u ? 160 : 128; d && d.nodeType == 8 && d.nextSibling; ) d = d.nextSibling;
          i != null && (i[i.indexOf(d)] = null), t.__e = d;
        } else if (i != null) for (J = i.length; J--; ) Te(i[J]);
      } else t.__e = n.__e;
      t.__k == null && (t.__k = n.__k || []), F.then || ot(t), k.__e(F, t, n);
    }
  } else i == null && t.__v == n.__v ? (t.__k = n.__k, t.__e = n.__e) : d = t.__e = kt(n.__e, t, n, o, s, i, c, u, l);
  return (h = k.diffed) && h(t), 128 & t.__u ? void 0 : d;
}
function ot(e) {
  e && (e.__c && (e.__c.__e = !0), e.__k && e.__k.some(ot));
}
function st(e, t, n) {
  for (var o = 0; o < n.length; o++) Pe(n[o], n[++o], n[++o]);
  k.__c && k.__c(t, e), e.some(function(s) {
    try {
      e = s.__h, s.__h = [], e.some(function(i) {
        i.call(s);
      });
    } catch (i) {
      k.__e(i, s.__v);
    }
  });
}
function lt(e) {
  return typeof e != "object" || e == null || e.__b > 0 ? e : pe(e) ? e.map(lt) : e.constructor !== void 0 ? null : U({}, e);
}
function kt(e, t, n, o, s, i, c, d, u) {
  var l, h, _, a, p, y, w, g = n.props || ae, v = t.props, f = t.type;
  if (f == "svg" ? s = "http://www.w3.org/2000/svg" : f == "math" ? s = "http://www.w3.org/1998/Math/MathML" : s || (s = "http://www.w3.org/1999/xhtml"), i != null) {
    for (l = 0; l < i.length; l++) if ((p = i[l]) && "setAttribute" in p == !!f && (f ? p.localName == f : p.nodeType == 3)) {
      e = p, i[l] = null;
      break;
    }
  }
  if (e == null) {
    if (f == null) return document.createTextNode(v);
    e = document.createElementNS(s, f, v.is && v), d && (k.__m && k.__m(t, i), d = !1), i = null;
  }
  if (f == null) g === v || d && e.data == v || (e.data = v);
  else {
    if (i = f == "textarea" && v.defaultValue != null ? null : i && he.call(e.childNodes), !d && i != null) for (g = {}, l = 0; l < e.attributes.length; l++) g[(p = e.attributes[l]).name] = p.value;
    for (l in g) p = g[l], l == "dangerouslySetInnerHTML" ? _ = p : l == "children" || l in v || l == "value" && "defaultValue" in v || l == "checked" && "defaultChecked" in v || te(e, l, null, p, s);
    for (l in v) p = v[l], l == "children" ? a = p : l == "dangerouslySetInnerHTML" ? h = p : l == "value" ? y = p : l == "checked" ? w = p : d && typeof p != "function" || g[l] === p || te(e, l, p, g[l], s);
    if (h) d || _ && (h.__html == _.__html || h.__html == e.innerHTML) || (e.innerHTML = h.__html), t.__k = [];
    else if (_ && (e.innerHTML = ""), rt(t.type == "template" ? e.content : e, pe(a) ? a : [a], t, n, o, f == "foreignObject" ? "http://www.w3.org/1999/xhtml" : s, i, c, i ? i[0] : n.__k && B(n, 0), d, u), i != null) for (l = i.length; l--; ) Te(i[l]);
    d && f != "textarea" || (l = "value", f == "progress" && y == null ? e.removeAttribute("value") : y != null && (y !== e[l] || f == "progress" && !y || f == "option" && y != g[l]) && te(e, l, y, g[l], s), l = "checked", w != null && w != e[l] && te(e, l, w, g[l], s));
  }
  return e;
}
function Pe(e, t, n) {
  try {
    if (typeof e == "function") {
      var o = typeof e.__u == "function";
      o && e.__u(), o && t == null || (e.__u = e(t));
    } else e.current = t;
  } catch (s) {
    k.__e(s, n);
  }
}
function at(e, t, n) {
  var o, s;
  if (k.unmount && k.unmount(e), (o = e.ref) && (o.current && o.current != e.__e || Pe(o, null, t)), (o = e.__c) != null) {
    if (o.componentWillUnmount) try {
      o.componentWillUnmount();
    } catch (i) {
      k.__e(i, t);
    }
    o.base = o.__P = o.__n = null;
  }
  if (o = e.__k) for (s = 0; s < o.length; s++) o[s] && at(o[s], t, n || typeof e.type != "function");
  n || Te(e.__e), e.__c = e.__ = e.__e = void 0;
}
function $t(e, t, n) {
  return this.constructor(e, n);
}
function $e(e, t, n) {
  var o, s, i, c;
  t == document && (t = document.documentElement), k.__ && k.__(e, t), s = (o = !1) ? null : t.__k, i = [], c = [], Me(t, e = t.__k = bt(z, null, [e]), s || ae, ae, t.namespaceURI, s ? null : t.firstChild ? he.call(t.childNodes) : null, i, s ? s.__e : t.firstChild, o, c), st(i, e, c), e.props.children = null;
}
function qt(e) {
  function t(n) {
    var o, s;
    return this.getChildContext || (o = /* @__PURE__ */ new Set(), (s = {})[t.__c] = this, this.getChildContext = function() {
      return s;
    }, this.componentWillUnmount = function() {
      o = null;
    }, this.shouldComponentUpdate = function(i) {
      this.props.value != i.value && o.forEach(function(c) {
        c.__e = !0, ke(c);
      });
    }, this.sub = function(i) {
      o.add(i);
      var c = i.componentWillUnmount;
      i.componentWillUnmount = function() {
        o && o.delete(i), c && c.call(i);
      };
    }), n.children;
  }
  return t.__c = "__cC" + tt++, t.__ = e, t.Provider = t.__l = (t.Consumer = function(n, o) {
    return n.children(o);
  }).contextType = t, t;
}
he = ce.slice, k = { __e: function(e, t, n, o) {
  for (var s, i, c; t = t.__; ) if ((s = t.__c) && !s.__) try {
    if ((i = s.constructor) && i.getDerivedStateFromError != null && (s.setState(i.getDerivedStateFromError(e)), c = s.__d), s.componentDidCatch != null && (s.componentDidCatch(e, o || {}), c = s.__d), c) return s.__E = s;
  } catch (d) {
    e = d;
  }
  throw e;
} }, Xe = 0, oe.prototype.setState = function(e, t) {
  var n;
  n = this.__s != null && this.__s != this.state ? this.__s : this.__s = U({}, this.state), typeof e == "function" && (e = e(U({}, n), this.props)), e && U(n, e), e != null && this.__v && (t && this._sb.push(t), ke(this));
}, oe.prototype.forceUpdate = function(e) {
  this.__v && (this.__e = !0, e && this.__h.push(e), ke(this));
}, oe.prototype.render = z, D = [], Ye = typeof Promise == "function" ? Promise.prototype.then.bind(Promise.resolve()) : setTimeout, Ze = function(e, t) {
  return e.__v.__b - t.__v.__b;
}, de.__r = 0, me = Math.random().toString(8), re = "__d" + me, G = "__a" + me, et = /(PointerCapture)$|Capture$/i, Se = 0, we = Le(!1), xe = Le(!0), tt = 0;
var Ct = 0;
function r(e, t, n, o, s, i) {
  t || (t = {});
  var c, d, u = t;
  if ("ref" in u) for (d in u = {}, t) d == "ref" ? c = t[d] : u[d] = t[d];
  var l = { type: e, props: u, key: n, ref: c, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: --Ct, __i: -1, __u: 0, __source: s, __self: i };
  if (typeof e == "function" && (c = e.defaultProps)) for (d in c) u[d] === void 0 && (u[d] = c[d]);
  return k.vnode && k.vnode(l), l;
}
var W, q, ge, Oe, X = 0, ct = [], S = k, Re = S.__b, Ee = S.__r, Ue = S.diffed, je = S.__c, De = S.unmount, Ie = S.__;
function _e(e, t) {
  S.__h && S.__h(q, e, X || t), X = 0;
  var n = q.__H || (q.__H = { __: [], __h: [] });
  return e >= n.__.length && n.__.push({}), n.__[e];
}
function C(e) {
  return X = 1, St(ut, e);
}
function St(e, t, n) {
  var o = _e(W++, 2);
  if (o.t = e, !o.__c && (o.__ = [ut(void 0, t), function(d) {
    var u = o.__N ? o.__N[0] : o.__[0], l = o.t(u, d);
    u !== l && (o.__N = [l, o.__[1]], o.__c.setState({}));
  }], o.__c = q, !q.__f)) {
    var s = function(d, u, l) {
      if (!o.__c.__H) return !0;
      var h = !1, _ = o.__c.props !== d;
      if (o.__c.__H.__.some(function(p) {
        if (p.__N) {
          h = !0;
          var y = p.__[0];
          p.__ = p.__N, p.__N = void 0, y !== p.__[0] && (_ = !0);
        }
      }), i) {
        var a = i.call(this, d, u, l);
        return h ? a || _ : a;
      }
      return !h || _;
    };
    q.__f = !0;
    var i = q.shouldComponentUpdate, c = q.componentWillUpdate;
    q.componentWillUpdate = function(d, u, l) {
      if (this.__e) {
        var h = i;
        i = void 0, s(d, u, l), i = h;
      }
      c && c.call(this, d, u, l);
    }, q.shouldComponentUpdate = s;
  }
  return o.__N || o.__;
}
function A(e, t) {
  var n = _e(W++, 3);
  !S.__s && dt(n.__H, t) && (n.__ = e, n.u = t, q.__H.__h.push(n));
}
function fe(e) {
  return X = 5, Y(function() {
    return { current: e };
  }, []);
}
function Y(e, t) {
  var n = _e(W++, 7);
  return dt(n.__H, t) && (n.__ = e(), n.__H = t, n.__h = e), n.__;
}
function Be(e, t) {
  return X = 8, Y(function() {
    return e;
  }, t);
}
function Tt(e) {
  var t = q.context[e.__c], n = _e(W++, 9);
  return n.c = e, t ? (n.__ == null && (n.__ = !0, t.sub(q)), t.props.value) : e.__;
}
function Mt() {
  for (var e; e = ct.shift(); ) {
    var t = e.__H;
    if (e.__P && t) try {
      t.__h.some(se), t.__h.some(qe), t.__h = [];
    } catch (n) {
      t.__h = [], S.__e(n, e.__v);
    }
  }
}
S.__b = function(e) {
  q = null, Re && Re(e);
}, S.__ = function(e, t) {
  e && t.__k && t.__k.__m && (e.__m = t.__k.__m), Ie && Ie(e, t);
}, S.__r = function(e) {
  Ee && Ee(e), W = 0;
  var t = (q = e.__c).__H;
  t && (ge === q ? (t.__h = [], q.__h = [], t.__.some(function(n) {
    n.__N && (n.__ = n.__N), n.u = n.__N = void 0;
  })) : (t.__h.some(se), t.__h.some(qe), t.__h = [], W = 0)), ge = q;
}, S.diffed = function(e) {
  Ue && Ue(e);
  var t = e.__c;
  t && t.__H && (t.__H.__h.length && (ct.push(t) !== 1 && Oe === S.requestAnimationFrame || ((Oe = S.requestAnimationFrame) || Pt)(Mt)), t.__H.__.some(function(n) {
    n.u && (n.__H = n.u, n.u = void 0);
  })), ge = q = null;
}, S.__c = function(e, t) {
  t.some(function(n) {
    try {
      n.__h.some(se), n.__h = n.__h.filter(function(o) {
        return !o.__ || qe(o);
      });
    } catch (o) {
      t.some(function(s) {
        s.__h && (s.__h = []);
      }), t = [], S.__e(o, n.__v);
    }
  }), je && je(e, t);
}, S.unmount = function(e) {
  De && De(e);
  var t, n = e.__c;
  n && n.__H && (n.__H.__.some(function(o) {
    try {
      se(o);
    } catch (s) {
      t = s;
    }
  }), n.__H = void 0, t && S.__e(t, n.__v));
};
var He = typeof requestAnimationFrame == "function";
function Pt(e) {
  var t, n = function() {
    clearTimeout(o), He && cancelAnimationFrame(t), setTimeout(e);
  }, o = setTimeout(n, 35);
  He && (t = requestAnimationFrame(n));
}
function se(e) {
  var t = q, n = e.__c;
  typeof n == "function" && (e.__c = void 0, n()), q = t;
}
function qe(e) {
  var t = q;
  e.__c = e.__(), q = t;
}
function dt(e, t) {
  return !e || e.length !== t.length || t.some(function(n, o) {
    return n !== e[o];
  });
}
function ut(e, t) {
  return typeof t == "function" ? t(e) : t;
}
class V extends Error {
  constructor(t) {
    super(`expected ${t.expected}; got ${t.got}. ${t.todo}`), this.problem = t;
  }
}
const Fe = { expected: "the server to answer", got: "no connection", todo: "Is sgfi explore still running? Reload when it is." };
class At {
  constructor(t) {
    this.token = t, this.page = !0, this.socket = null, this.waiting = /* @__PURE__ */ new Map(), this.next = 1, this.tries = 0;
  }
  async bytes(t, n) {
    let o;
    try {
      o = await fetch(t, { headers: { authorization: `Bearer ${this.token}` }, signal: n });
    } catch (s) {
      throw n?.aborted ? s : new V(Fe);
    }
    if (!o.ok) throw new V(await We(o));
    return { body: await o.arrayBuffer(), type: o.headers.get("content-type") ?? "" };
  }
  async upload(t, n) {
    const o = await fetch(`/api/inputs?name=${encodeURIComponent(n)}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": t.type || "application/octet-stream" },
      body: t
    });
    if (!o.ok) throw new V(await We(o));
    return await o.json();
  }
  live(t, n) {
    const o = this.next++, s = JSON.stringify({ id: o, ask: t });
    this.waiting.set(o, { text: s, heard: n });
    const i = this.connected();
    return i.readyState === WebSocket.OPEN && i.send(s), () => {
      this.waiting.delete(o) && this.socket?.readyState === WebSocket.OPEN && this.socket.send(JSON.stringify({ id: o, cancel: !0 }));
    };
  }
  connected() {
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return this.socket;
    const t = new WebSocket(`ws://${location.host}/live?token=${encodeURIComponent(this.token)}`);
    return this.socket = t, t.onopen = () => {
      this.tries = 0;
      for (const { text: n } of this.waiting.values()) t.send(n);
    }, t.onmessage = (n) => {
      const o = JSON.parse(n.data);
      this.waiting.get(o.id)?.heard(o);
    }, t.onclose = () => {
      if (this.socket === t && (this.socket = null, !!this.waiting.size))
        if (this.tries++ < 5) setTimeout(() => this.waiting.size && this.connected(), 400 * this.tries);
        else for (const [n, { heard: o }] of this.waiting) o({ id: n, state: "failed", error: Fe });
    }, t;
  }
}
async function We(e) {
  try {
    return (await e.json()).error;
  } catch {
    return { expected: "an answer", got: `status ${e.status}`, todo: "Reload the page." };
  }
}
class Nt {
  constructor(t) {
    this.model = t, this.page = !1, this.next = 1, this.replies = /* @__PURE__ */ new Map(), this.events = /* @__PURE__ */ new Map(), this.heard = (n, o) => {
      n.reply !== void 0 ? (this.replies.get(n.reply)?.(n, o), this.replies.delete(n.reply)) : n.live && this.events.get(n.live.id)?.(n.live);
    }, t.on("msg:custom", this.heard);
  }
  close() {
    this.model.off("msg:custom", this.heard);
  }
  request(t, n = []) {
    const o = this.next++;
    return new Promise((s, i) => {
      this.replies.set(o, (c, d) => {
        const u = d[0], l = u ? u.buffer.slice(u.byteOffset, u.byteOffset + u.byteLength) : new ArrayBuffer(0);
        c.status < 400 ? s({ body: l, type: c.type }) : i(new V(JSON.parse(new TextDecoder().decode(l)).error));
      }), this.model.send({ request: o, ...t }, void 0, n);
    });
  }
  bytes(t) {
    return this.request({ path: t });
  }
  async upload(t, n) {
    const { body: o } = await this.request({ upload: n, kind: t.type.startsWith("text/plain") ? "text" : "picture" }, [await t.arrayBuffer()]);
    return JSON.parse(new TextDecoder().decode(o));
  }
  live(t, n) {
    const o = this.next++;
    return this.events.set(o, n), this.model.send({ live: { id: o, ask: t } }), () => {
      this.events.delete(o) && this.model.send({ live: { id: o, cancel: !0 } });
    };
  }
}
async function Ce(e, t, n) {
  const { body: o } = await e.bytes(t, n);
  return JSON.parse(new TextDecoder().decode(o));
}
const ht = qt(null), T = () => Tt(ht);
function Z(e) {
  const { transport: t } = T(), [n, o] = C({}), s = e ? JSON.stringify(e) : "";
  return A(() => {
    if (o({}), !!e)
      return t.live(e, (i) => {
        const c = i.stage ? [i.stage] : e.stages;
        o((d) => {
          const u = { ...d };
          for (const l of c)
            u[l] = { state: i.state, steps: i.steps ?? d[l]?.steps ?? 0, facts: i.facts, error: i.error };
          return u;
        });
      });
  }, [s, t]), n;
}
function I(e) {
  const { transport: t } = T(), [n, o] = C({ path: null });
  return A(() => {
    if (!e) return;
    const s = new AbortController();
    return Ce(t, e, s.signal).then(
      (i) => !s.signal.aborted && o({ path: e, data: i }),
      (i) => !s.signal.aborted && o({ path: e, problem: ee(i) })
    ), () => s.abort();
  }, [e, t]), n.path === e ? n : {};
}
function ee(e) {
  return e instanceof V ? e.problem : { expected: "an answer", got: String(e), todo: "Reload the page." };
}
const K = /* @__PURE__ */ new Map();
async function Lt(e, t, n) {
  const o = K.get(t);
  if (o) return o;
  const { body: s, type: i } = await e.bytes(t, n), c = URL.createObjectURL(new Blob([s], { type: i }));
  if (K.set(t, c), K.size > 600) {
    const [d, u] = K.entries().next().value;
    K.delete(d), URL.revokeObjectURL(u);
  }
  return c;
}
function R({ path: e, alt: t, className: n = "", fresh: o = !1 }) {
  const { transport: s } = T(), [i, c] = C(null), d = fe(e);
  return d.current = e, A(() => {
    if (!e) return;
    const l = new AbortController();
    return Lt(s, e, l.signal).then(
      (h) => d.current === e && c({ path: e, url: h }),
      () => {
      }
    ), () => l.abort();
  }, [e, s]), i && e && (!o || i.path === e) ? /* @__PURE__ */ r("img", { class: n, src: i.url, alt: t, "data-path": i.path, draggable: !1 }) : /* @__PURE__ */ r("div", { class: `blank ${n}`, role: "img", "aria-label": `${t}, on its way` });
}
function O({ problem: e }) {
  return /* @__PURE__ */ r("div", { class: "trouble", role: "alert", children: [
    /* @__PURE__ */ r("p", { children: [
      /* @__PURE__ */ r("b", { children: "Expected" }),
      " ",
      e.expected
    ] }),
    /* @__PURE__ */ r("p", { children: [
      /* @__PURE__ */ r("b", { children: "Got" }),
      " ",
      e.got
    ] }),
    /* @__PURE__ */ r("p", { children: e.todo })
  ] });
}
const Q = {
  m: "",
  x: "",
  q: "",
  v: "",
  by: "channels",
  sort: "activation",
  n: 24,
  s: !1,
  w: "natural",
  bm: "",
  bx: "",
  bq: "",
  bs: "raw",
  p: []
}, Ot = {
  v: ["grid", "compare", "decide", "tokens"],
  by: ["channels", "cells"],
  sort: ["index", "activation", "contribution", "selectivity"],
  w: ["natural", "signed"],
  bs: ["raw", "first", "final"]
};
function pt(e) {
  const t = [];
  for (const n of Object.keys(Q)) {
    const o = e[n];
    if (JSON.stringify(o) === JSON.stringify(Q[n])) continue;
    const s = Array.isArray(o) ? o.join("|") : o === !0 ? "1" : String(o);
    t.push(`${n}=${encodeURIComponent(s).replace(/%3A/g, ":").replace(/%40/g, "@").replace(/%2C/g, ",")}`);
  }
  return t.join("&");
}
function ze(e) {
  const t = { ...Q, p: [] };
  for (const n of e.replace(/^#/, "").split("&")) {
    const o = n.indexOf("=");
    if (o < 0) continue;
    const s = n.slice(0, o);
    let i = "";
    try {
      i = decodeURIComponent(n.slice(o + 1));
    } catch {
      continue;
    }
    const c = Ot[s];
    c && !c.includes(i) || (s === "p" ? t.p = i.split("|").filter(Boolean).slice(0, 24) : s === "s" ? t.s = i === "1" : s === "n" ? t.n = Math.min(2048, Math.max(1, Number.parseInt(i, 10) || Q.n)) : s in Q && (t[s] = i));
  }
  return t;
}
function E(e) {
  const [t, n = ""] = e.split("@", 2), o = t.search(/[:%]/);
  return o < 0 ? { node: t, units: "", coords: n } : { node: t.slice(0, o), units: t.slice(o), coords: n };
}
function ue(e) {
  return e.node + e.units + (e.coords ? `@${e.coords}` : "");
}
function H(e, t) {
  const { node: n } = E(t);
  if (!e) return;
  const o = n || e.target;
  return e.nodes.find((s) => s.name === o || s.aliases.includes(o));
}
function _t(e, t, n) {
  const o = E(e), s = /^:(\d+)$/.exec(o.units), i = s && Number(s[1]) < n.channels ? o.units : "";
  let c = "";
  return /^\d+(,\d+)*$/.test(o.coords) && t && t.coords.length === n.coords.length && (c = o.coords.split(",").map((u, l) => {
    const h = Math.floor((Number(u) + 0.5) * n.coords[l] / t.coords[l]);
    return Math.min(h, n.coords[l] - 1);
  }).join(",")), ue({ node: n.name, units: i, coords: c });
}
function Rt(e, t, n) {
  const o = E(e), s = /^:(\d+)$/.exec(o.units);
  if (!s && /^\d+(,\d+)*$/.test(o.coords)) {
    let d = o.coords.split(",").map(Number).reduce((h, _, a) => h * t.coords[a] + _, 0);
    const u = t.coords.reduce((h, _) => h * _, 1);
    d = (d + n + u) % u;
    const l = [];
    for (let h = t.coords.length - 1; h >= 0; h--)
      l.unshift(d % t.coords[h]), d = Math.floor(d / t.coords[h]);
    return ue({ ...o, node: t.name, coords: l.join(",") });
  }
  const i = s ? Number(s[1]) : n > 0 ? -1 : 0;
  return ue({ ...o, node: t.name, units: `:${(i + n + t.channels) % t.channels}` });
}
function ft(e) {
  return [e.channels, ...e.coords].join(" × ");
}
function M(e, t, n, o = {}) {
  const s = new URLSearchParams(o).toString();
  return `/${e}/${t.m}/${t.x}/${encodeURIComponent(t.q)}.${n}${s ? `?${s}` : ""}`;
}
const Je = [["final", "answer"], ["first", "gradient under the prior"], ["raw", "plain gradient"]];
function Et() {
  const { view: e, models: t, inputs: n, model: o, set: s } = T(), i = { m: e.bm || e.m, x: e.bx || e.x, q: e.bq || e.q, s: e.bs }, c = t.find((m) => m.id === i.m), [d, u] = C(i.q);
  A(() => u(i.q), [i.q]);
  const l = Z({ lens: e.m, input: e.x, query: e.q, stages: ["final"] }), h = Z({ lens: i.m, input: i.x, query: i.q, stages: [i.s] }), _ = l.final?.state === "done" && h[i.s]?.state === "done", a = `${i.m}~${i.x}~${i.s}~${i.q}`, p = `${e.m}~${e.x}~final~${e.q}`, y = e.w === "signed" ? { view: "signed" } : {}, w = I(_ ? M("inverse", e, "json", { with: a }) : null), g = (m) => n.find((x) => x.sha === m)?.name ?? "input", v = h[i.s]?.error ?? w.problem, f = n.filter((m) => m.lenses.includes(i.m));
  return /* @__PURE__ */ r("div", { class: "compare", children: [
    /* @__PURE__ */ r("div", { class: "toolbar", children: [
      /* @__PURE__ */ r("b", { children: "B" }),
      /* @__PURE__ */ r("label", { children: [
        "estimator",
        " ",
        /* @__PURE__ */ r("select", { value: i.m, onChange: (m) => s({ bm: m.currentTarget.value }), children: t.map((m) => /* @__PURE__ */ r("option", { value: m.id, children: m.title }, m.id)) })
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "stage",
        " ",
        /* @__PURE__ */ r("select", { value: i.s, onChange: (m) => s({ bs: m.currentTarget.value }), children: Je.map(([m, x]) => /* @__PURE__ */ r("option", { value: m, children: x }, m)) })
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "input",
        " ",
        /* @__PURE__ */ r("select", { value: i.x, onChange: (m) => s({ bx: m.currentTarget.value }), children: f.map((m) => /* @__PURE__ */ r("option", { value: m.sha, children: m.name }, m.sha)) })
      ] }),
      /* @__PURE__ */ r("form", { onSubmit: (m) => {
        m.preventDefault(), s({ bq: d.trim() });
      }, children: /* @__PURE__ */ r("label", { children: [
        "query ",
        /* @__PURE__ */ r("input", { value: d, spellcheck: !1, onInput: (m) => u(m.currentTarget.value) })
      ] }) })
    ] }),
    v && /* @__PURE__ */ r(O, { problem: v }),
    o?.picture && c?.picture && !v && /* @__PURE__ */ r("div", { class: "three", children: [
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(R, { path: _ ? M("inverse", e, "png", { with: a, ...y }) : null, alt: `A: ${e.q}`, className: "side-a" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "A" }),
          " ",
          /* @__PURE__ */ r("span", { children: [
            g(e.x),
            " · ",
            e.q
          ] })
        ] })
      ] }),
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(R, { path: _ ? M("inverse", i, "png", { stage: i.s, with: p, ...y }) : null, alt: `B: ${i.q}`, className: "side-b" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "B" }),
          " ",
          /* @__PURE__ */ r("span", { children: [
            g(i.x),
            " · ",
            i.q,
            " · ",
            Je.find(([m]) => m === i.s)?.[1]
          ] })
        ] })
      ] }),
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(R, { path: _ ? M("inverse", e, "png", { minus: a }) : null, alt: "A minus B", className: "minus" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "A − B" }),
          " ",
          /* @__PURE__ */ r("span", { children: "signed: red where A is brighter" })
        ] })
      ] })
    ] }),
    w.data && /* @__PURE__ */ r("p", { class: "note", role: "status", "data-cosine": w.data.cosine_between, children: [
      "Cosine of A with B ",
      w.data.cosine_between.toFixed(3),
      ".",
      " ",
      w.data.scaled ? "They have different units: both are brought to length one." : `Lengths ${w.data.lengths?.map((m) => m.toPrecision(3)).join(" and ")}; one colour scale.`
    ] })
  ] });
}
const ve = {
  positive: "for the decision",
  negative: "against it",
  matched: "control: as active",
  random: "control: random"
};
function Ut() {
  const { view: e, model: t, set: n } = T(), o = H(t, e.q), { data: s, problem: i } = I(o ? M("decide", { ...e, q: o.name }, "json") : null);
  if (i) return /* @__PURE__ */ r(O, { problem: i });
  if (!s || !o) return /* @__PURE__ */ r("p", { class: "note", role: "status", children: [
    "Ranking the channels of ",
    o?.name,
    " …"
  ] });
  const c = Math.max(...s.rows.map((l) => Math.abs(l.drop)), Math.abs(s.decision.margin)), d = [...new Set(s.rows.map((l) => l.size))], u = s.rows.filter((l) => l.kind === "positive" || l.kind === "negative");
  return /* @__PURE__ */ r("div", { class: "decide", children: [
    /* @__PURE__ */ r("p", { class: "note", children: [
      "Class ",
      s.decision.top,
      " (",
      (100 * s.decision.probability).toFixed(0),
      " %) before class ",
      s.decision.second,
      "; margin ",
      s.decision.margin.toFixed(2),
      " in logits."
    ] }),
    /* @__PURE__ */ r("div", { class: "branches", children: [
      /* @__PURE__ */ r("section", { "aria-label": "Inversion", children: [
        /* @__PURE__ */ r("h3", { children: [
          "What the groups identify ",
          /* @__PURE__ */ r("small", { children: "inversion; never fed back to the model" })
        ] }),
        /* @__PURE__ */ r("ul", { class: "tiles", children: u.map((l) => /* @__PURE__ */ r("li", { class: "tile", children: [
          /* @__PURE__ */ r("button", { type: "button", class: "pick", "aria-label": `Look at ${l.query}`, "data-query": l.query, onClick: () => n({ q: l.query }), children: /* @__PURE__ */ r(jt, { query: l.query }) }),
          /* @__PURE__ */ r("span", { class: "under wrap", children: [
            l.size,
            " ",
            ve[l.kind],
            /* @__PURE__ */ r("br", {}),
            /* @__PURE__ */ r("code", { children: E(l.query).units })
          ] })
        ] }, l.kind + l.size)) })
      ] }),
      /* @__PURE__ */ r("section", { "aria-label": "Intervention", children: [
        /* @__PURE__ */ r("h3", { children: [
          "What zeroing them does ",
          /* @__PURE__ */ r("small", { children: "the original model, no inverse involved" })
        ] }),
        /* @__PURE__ */ r("table", { children: [
          /* @__PURE__ */ r("thead", { children: /* @__PURE__ */ r("tr", { children: [
            /* @__PURE__ */ r("th", { scope: "col", children: "channels" }),
            d.map((l) => /* @__PURE__ */ r("th", { scope: "col", children: l }, l))
          ] }) }),
          /* @__PURE__ */ r("tbody", { children: Object.keys(ve).map((l) => /* @__PURE__ */ r("tr", { children: [
            /* @__PURE__ */ r("th", { scope: "row", children: ve[l] }),
            d.map((h) => {
              const _ = s.rows.find((a) => a.kind === l && a.size === h);
              return /* @__PURE__ */ r("td", { children: _ && /* @__PURE__ */ r(z, { children: [
                /* @__PURE__ */ r("b", { children: _.drop.toFixed(2) }),
                _.flipped > 0 && /* @__PURE__ */ r("small", { children: [
                  " ",
                  _.groups > 1 ? `${Math.round(100 * _.flipped)} % flip` : "flips"
                ] }),
                /* @__PURE__ */ r("span", { class: _.drop < 0 ? "score minus" : "score", children: /* @__PURE__ */ r("span", { style: { width: `${100 * Math.abs(_.drop) / c}%` } }) })
              ] }) }, h);
            })
          ] }, l)) })
        ] }),
        /* @__PURE__ */ r("p", { class: "note", children: [
          "Drop of the margin when a group of that size is set to zero; negative where the margin grew. Random: mean of ",
          s.rows.find((l) => l.kind === "random")?.groups,
          " groups."
        ] })
      ] })
    ] })
  ] });
}
function jt({ query: e }) {
  const { view: t, model: n } = T(), { final: o } = Z({ lens: t.m, input: t.x, query: e, stages: ["final"], background: !0 });
  return n?.picture ? /* @__PURE__ */ r(R, { path: o?.state === "done" ? M("inverse", { ...t, q: e }, "png") : null, alt: "" }) : null;
}
function Dt() {
  const { view: e, model: t, transport: n, say: o } = T(), [s, i] = C(null), c = { stage: e.s ? "share" : "final", ...e.w === "signed" ? { view: "signed" } : {} }, d = (a) => M(a === "png" || a === "safetensors" ? "inverse" : "export", e, a, c), u = `${e.q.replace(/[^\w.-]+/g, "_")}`, l = async (a) => {
    i(null);
    try {
      const { body: p, type: y } = await n.bytes(d(a)), w = document.createElement("a");
      w.href = URL.createObjectURL(new Blob([p], { type: y })), w.download = `${u}.${a}`, w.click(), setTimeout(() => URL.revokeObjectURL(w.href), 1e4);
    } catch (p) {
      i(ee(p));
    }
  }, h = async (a) => {
    i(null);
    try {
      const { body: p } = await n.bytes(d(a));
      await navigator.clipboard.writeText(new TextDecoder().decode(p)), o(a === "py" ? "Python lines copied" : "Command copied");
    } catch (p) {
      i(ee(p));
    }
  }, _ = t?.picture ? ["png", "svg", "html", "safetensors"] : ["html", "safetensors"];
  return /* @__PURE__ */ r("section", { class: "export", "aria-label": "Export", children: [
    /* @__PURE__ */ r("span", { children: "Save" }),
    _.map((a) => /* @__PURE__ */ r("button", { type: "button", onClick: () => void l(a), children: a === "html" ? "single HTML file" : a.toUpperCase() }, a)),
    /* @__PURE__ */ r("span", { children: "Copy" }),
    /* @__PURE__ */ r("button", { type: "button", onClick: () => void h("py"), children: "Python lines" }),
    /* @__PURE__ */ r("button", { type: "button", onClick: () => void h("sh"), children: "command line" }),
    /* @__PURE__ */ r("code", { class: "again", children: [
      'sgfi export "#',
      pt({ ...e, p: [], v: "" }),
      '"'
    ] }),
    s && /* @__PURE__ */ r(O, { problem: s })
  ] });
}
const be = 24;
function It() {
  const { view: e, model: t, set: n } = T(), o = H(t, e.q), s = o ? { m: e.m, x: e.x, q: o.name } : null, i = I(s ? M("scores", s, "json") : null), [c, d] = C(/* @__PURE__ */ new Set());
  A(() => d(/* @__PURE__ */ new Set()), [e.m, e.x, o?.name, e.by]);
  const u = o && o.coords.length === 0, l = u ? "channels" : e.by, h = Y(() => Bt(o?.name ?? "", i.data, l), [o?.name, i.data, l]), _ = i.data?.[l], a = Y(() => Ht(h, e.sort === "contribution" ? _?.contribution : e.sort === "index" ? void 0 : _?.activation).slice(0, e.n), [h, _, e.sort, e.n]), p = a.filter((b) => c.has(b.query)).map((b) => b.query), y = I(
    s && e.sort === "selectivity" && p.length > 1 && p.length === a.length ? M("likeness", { ...s, q: p.join("|") }, "json") : null
  );
  if (!t || !o) return null;
  if (i.problem) return /* @__PURE__ */ r(O, { problem: i.problem });
  const w = y.data?.selectivity, g = w ? [...a].sort((b, N) => (w[N.query] ?? 0) - (w[b.query] ?? 0)) : a, v = (b) => e.sort === "selectivity" ? w?.[b.query] : e.sort === "contribution" ? _?.contribution?.[b.index] : _?.activation[b.index], f = Math.max(...g.map((b) => Math.abs(v(b) ?? 0)), 1e-9), m = (b, N) => /* @__PURE__ */ r(
    Ft,
    {
      unit: b,
      pinned: N,
      score: v(b),
      most: f,
      now: b.query === e.q,
      ended: () => d((L) => L.has(b.query) ? L : /* @__PURE__ */ new Set([...L, b.query]))
    },
    b.query
  ), x = e.p.map((b) => ({ query: b, label: b, index: -1 })), P = ["activation", "contribution", "selectivity", "index"];
  return /* @__PURE__ */ r("div", { class: "grid-tab", children: [
    /* @__PURE__ */ r("div", { class: "toolbar", children: [
      /* @__PURE__ */ r("fieldset", { children: [
        /* @__PURE__ */ r("legend", { children: "units" }),
        ["channels", "cells"].map((b) => /* @__PURE__ */ r("button", { type: "button", disabled: b === "cells" && !!u, "aria-pressed": l === b, onClick: () => n({ by: b, n: be }), children: b }, b))
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "sort by",
        " ",
        /* @__PURE__ */ r("select", { value: e.sort, onChange: (b) => n({ sort: b.currentTarget.value }), children: P.map((b) => /* @__PURE__ */ r("option", { value: b, disabled: b === "contribution" && !!_ && !_.contribution, children: b === "contribution" ? "decision contribution" : b }, b)) })
      ] }),
      /* @__PURE__ */ r("span", { class: "count", role: "status", children: [
        p.length,
        " of ",
        g.length,
        " shown, ",
        h.length,
        " in all"
      ] })
    ] }),
    x.length > 0 && /* @__PURE__ */ r(z, { children: [
      /* @__PURE__ */ r("h3", { class: "pins", children: "Pinned" }),
      /* @__PURE__ */ r("ul", { class: "tiles", "aria-label": "Pinned", children: x.map((b) => m(b, !0)) })
    ] }),
    /* @__PURE__ */ r("ul", { class: "tiles", "aria-label": `${l} of ${o.name}`, children: g.map((b) => m(b, !1)) }),
    g.length < h.length && /* @__PURE__ */ r("button", { type: "button", class: "more", onClick: () => n({ n: Math.min(h.length, e.n + be) }, !0), children: [
      be,
      " more"
    ] }),
    e.sort === "selectivity" && /* @__PURE__ */ r("p", { class: "note", children: "Selectivity: one minus the mean absolute cosine with the other answers shown here. Known when all of them are." }),
    e.sort === "contribution" && /* @__PURE__ */ r("p", { class: "note", children: "Contribution: activation times gradient of the margin between the first two classes, to first order." })
  ] });
}
function Bt(e, t, n) {
  return !t || t.node !== e ? [] : n === "channels" ? t.channels.activation.map((o, s) => ({ query: `${e}:${s}`, label: `:${s}`, index: s })) : t.cells.at.map((o, s) => ({ query: `${e}@${o.join(",")}`, label: `@${o.join(",")}`, index: s }));
}
function Ht(e, t) {
  return t ? [...e].sort((n, o) => t[o.index] - t[n.index] || n.index - o.index) : e;
}
function Ft(e) {
  const { view: t, model: n, set: o } = T(), { unit: s } = e, i = Z({ lens: t.m, input: t.x, query: s.query, stages: ["final"], background: !0 }), { state: c, facts: d, error: u } = i.final ?? {};
  A(() => {
    c === "done" && e.ended();
  }, [c]);
  const l = d?.profile, h = () => o({ p: e.pinned || t.p.includes(s.query) ? t.p.filter((_) => _ !== s.query) : [...t.p, s.query] }, !0);
  return /* @__PURE__ */ r("li", { class: e.now ? "tile now" : "tile", children: [
    /* @__PURE__ */ r("button", { type: "button", class: "pick", "aria-current": e.now ? "true" : void 0, "aria-label": `Look at ${s.query}`, title: s.query, "data-query": s.query, "data-state": c ?? "", onClick: () => o({ q: s.query }), children: [
      n?.picture && /* @__PURE__ */ r(R, { path: c === "done" ? M("inverse", { ...t, q: s.query }, "png", t.w === "signed" ? { view: "signed" } : {}) : null, alt: "" }),
      n?.text && /* @__PURE__ */ r(Wt, { values: l }),
      u && /* @__PURE__ */ r("span", { class: "wrong", title: u.got, children: "!" })
    ] }),
    /* @__PURE__ */ r("span", { class: "under", children: [
      /* @__PURE__ */ r("code", { children: (E(s.query).units || e.pinned, s.label) }),
      e.score !== void 0 && /* @__PURE__ */ r("span", { class: e.score < 0 ? "score minus" : "score", title: e.score.toPrecision(3), children: /* @__PURE__ */ r("span", { style: { width: `${Math.abs(e.score) / e.most * 100}%` } }) }),
      /* @__PURE__ */ r("button", { type: "button", class: "pin", "aria-pressed": t.p.includes(s.query), "aria-label": `Pin ${s.query}`, onClick: h, children: t.p.includes(s.query) ? "●" : "○" })
    ] })
  ] });
}
function Wt({ values: e }) {
  if (!e) return /* @__PURE__ */ r("span", { class: "blank" });
  const t = Math.max(...e, 1e-9);
  return /* @__PURE__ */ r("svg", { class: "spark", viewBox: `0 0 ${e.length} 1`, preserveAspectRatio: "none", "aria-hidden": "true", children: e.map((n, o) => /* @__PURE__ */ r("rect", { x: o + 0.05, y: 1 - n / t, width: 0.9, height: n / t }, o)) });
}
const j = 30;
function zt() {
  const { model: e, view: t, set: n } = T(), o = fe(null), s = H(e, t.q);
  if (A(() => {
    o.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [s?.name]), !e) return null;
  const i = ["input", ...e.nodes.map((d) => d.name)], c = e.edges.map(([d, u]) => [i.indexOf(d), i.indexOf(u)]).filter(([d, u]) => d >= 0 && u - d > 1);
  return /* @__PURE__ */ r("nav", { class: "ladder", "aria-label": "Tensors, shallow to deep", children: /* @__PURE__ */ r("div", { class: "rungs", children: [
    /* @__PURE__ */ r("svg", { class: "dag", width: "22", height: i.length * j, "aria-hidden": "true", children: [
      /* @__PURE__ */ r("path", { d: `M15 ${j / 2}V${(i.length - 0.5) * j}` }),
      c.map(([d, u]) => /* @__PURE__ */ r("path", { class: "skip", d: `M15 ${(d + 0.5) * j}C2 ${(d + 0.5) * j} 2 ${(u + 0.5) * j} 15 ${(u + 0.5) * j}` }, `${d}-${u}`)),
      i.map((d, u) => /* @__PURE__ */ r("circle", { class: d === s?.name ? "now" : "", cx: "15", cy: (u + 0.5) * j, r: d === s?.name ? 5 : 3 }, d))
    ] }),
    /* @__PURE__ */ r("ol", { children: [
      /* @__PURE__ */ r("li", { class: "source", children: [
        /* @__PURE__ */ r("span", { children: "input" }),
        /* @__PURE__ */ r("small", { children: e.input.join(" × ") })
      ] }),
      e.nodes.map((d) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r(
        "button",
        {
          type: "button",
          ref: d.name === s?.name ? o : void 0,
          "aria-current": d.name === s?.name ? "true" : void 0,
          title: `${d.name} (${d.op})`,
          onClick: () => n({ q: _t(t.q, s, d) }),
          children: [
            /* @__PURE__ */ r("span", { children: d.name }),
            /* @__PURE__ */ r("small", { children: ft(d) })
          ]
        }
      ) }, d.name))
    ] })
  ] }) });
}
const Ke = 20 * 2 ** 20;
function Jt({ close: e }) {
  const { models: t, inputs: n, view: o, model: s, set: i, refresh: c, transport: d, say: u } = T(), [l, h] = C(null), [_, a] = C(!1), [p, y] = C(""), w = I("/api/health").data, g = async (f, m) => {
    if (h(null), f.size > Ke) {
      h({ expected: `at most ${Ke >> 20} MiB`, got: `${(f.size / 2 ** 20).toFixed(1)} MiB`, todo: "Choose a smaller file." });
      return;
    }
    try {
      const { sha: x } = await d.upload(f, m), b = (await c()).find((N) => N.sha === x)?.lenses ?? [];
      i({ x, ...b.includes(o.m) || !b.length ? {} : { m: b[0], q: "" } }), u(`${m} added`), e();
    } catch (x) {
      h(ee(x));
    }
  }, v = n.filter((f) => !s || f.lenses.includes(s.id));
  return /* @__PURE__ */ r("section", { class: "open", "aria-label": "Open", children: [
    /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("h2", { children: "Models" }),
      /* @__PURE__ */ r("ul", { class: "models", children: t.map((f) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r(
        "button",
        {
          type: "button",
          "aria-current": f.id === o.m ? "true" : void 0,
          onClick: () => {
            const m = n.find((x) => x.lenses.includes(f.id));
            i({ m: f.id, q: "", x: v.some((x) => x.sha === o.x && x.lenses.includes(f.id)) ? o.x : m?.sha ?? "" });
          },
          children: [
            /* @__PURE__ */ r("b", { children: f.title }),
            /* @__PURE__ */ r("span", { children: [
              f.kind === "natural" ? "natural inverse, no calibration" : "calibrated maps",
              " · ",
              f.nodes.length,
              " tensors · ",
              f.input.join(" × ")
            ] })
          ]
        }
      ) }, f.id)) }),
      /* @__PURE__ */ r("p", { class: "note", children: [
        "More models or map folders: name them on the command line, ",
        /* @__PURE__ */ r("code", { children: "sgfi explore torchvision:resnet50 maps/mine photo.jpg" }),
        "."
      ] }),
      w && /* @__PURE__ */ r("p", { class: "note", role: "status", children: [
        w.waiting ? `${w.waiting} questions at work` : "Nothing at work",
        " · ",
        w.counts.done,
        " answered, ",
        w.counts.cancelled,
        " cancelled"
      ] })
    ] }),
    /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("h2", { children: "Inputs" }),
      /* @__PURE__ */ r("ul", { class: "inputs", children: v.map((f) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r("button", { type: "button", "aria-current": f.sha === o.x ? "true" : void 0, onClick: () => {
        i({ x: f.sha }), e();
      }, children: [
        f.kind !== "text" && s?.picture && /* @__PURE__ */ r(R, { path: `/input/${s.id}/${f.sha}.png`, alt: "" }),
        /* @__PURE__ */ r("span", { children: f.name })
      ] }) }, f.sha)) }),
      s?.text ? /* @__PURE__ */ r("form", { class: "write", onSubmit: (f) => {
        f.preventDefault(), p.trim() && g(new Blob([p], { type: "text/plain" }), p.slice(0, 80));
      }, children: [
        /* @__PURE__ */ r("label", { children: [
          "A text ",
          /* @__PURE__ */ r("textarea", { value: p, rows: 2, onInput: (f) => y(f.currentTarget.value) })
        ] }),
        /* @__PURE__ */ r("button", { type: "submit", children: "Add" })
      ] }) : /* @__PURE__ */ r(
        "label",
        {
          class: _ ? "drop over" : "drop",
          onDragOver: (f) => {
            f.preventDefault(), a(!0);
          },
          onDragLeave: () => a(!1),
          onDrop: (f) => {
            f.preventDefault(), a(!1);
            const m = f.dataTransfer?.files[0];
            m && g(m, m.name);
          },
          children: [
            /* @__PURE__ */ r("input", { type: "file", accept: "image/*", onChange: (f) => {
              const m = f.currentTarget.files?.[0];
              m && g(m, m.name);
            } }),
            /* @__PURE__ */ r("span", { children: "Drop a picture here, or choose one. It stays on this computer." })
          ]
        }
      ),
      l && /* @__PURE__ */ r(O, { problem: l })
    ] })
  ] });
}
const Ge = 8, Kt = {
  preview: "preview: plain gradient, not the answer",
  final: "natural inverse",
  share: "natural inverse, faded where it is not determined"
};
function Gt({ stages: e }) {
  const { view: t, model: n, set: o, inputs: s } = T(), i = H(n, t.q), [c, d] = C(!1), [u, l] = C(null), [h, _] = C(null), a = !!n?.picture && i?.coords.length === 2, p = I(c && a && i ? M("reads", { ...t, q: i.name }, "json") : null);
  if (!n) return null;
  const y = ["share", "final", "preview"].find(($) => e[$]?.state === "done"), w = Object.values(e).find(($) => $.state === "failed" && $.error), g = y ? e[y].facts : void 0, v = { stage: y ?? "final" };
  t.w === "signed" && (v.view = "signed");
  const f = g?.query ?? t.q, m = y ? M("inverse", { ...t, q: f }, "png", v) : null, x = p.data, P = x && h !== null ? x.share.map(($) => $[h]) : null, b = x && u !== null ? x.share[u] : null, N = s.find(($) => $.sha === t.x)?.name ?? "input", L = n.kind === "maps" && y === "final" ? "calibrated maps" : y ? Kt[y] : "on its way", J = E(t.q).coords.split(";").filter(Boolean);
  return /* @__PURE__ */ r("section", { class: "panels", "aria-label": "Input and inverse", children: [
    /* @__PURE__ */ r("figure", { children: [
      /* @__PURE__ */ r("div", { class: "frame", onPointerEnter: () => d(!0), children: [
        /* @__PURE__ */ r(R, { path: t.x ? `/input/${t.m}/${t.x}.png` : null, alt: `${N} as the model sees it` }),
        a && /* @__PURE__ */ r(
          Ve,
          {
            rows: Math.min(Ge, n.input[1]),
            columns: Math.min(Ge, n.input[2]),
            weights: P,
            onHover: l,
            label: ($) => `place ${$.join(", ")}`
          }
        )
      ] }),
      /* @__PURE__ */ r("figcaption", { children: [
        /* @__PURE__ */ r("b", { children: N }),
        " ",
        /* @__PURE__ */ r("span", { children: Vt(c && a, !!x, P ? "what the cell reads" : "hover: which cells read it") })
      ] })
    ] }),
    /* @__PURE__ */ r("figure", { children: [
      /* @__PURE__ */ r("div", { class: "frame", onPointerEnter: () => d(!0), children: [
        /* @__PURE__ */ r(R, { path: m, alt: `${L} of ${t.q}`, className: `answer ${y ?? ""}` }),
        a && i && /* @__PURE__ */ r(
          Ve,
          {
            rows: i.coords[0],
            columns: i.coords[1],
            weights: b,
            marked: J,
            onHover: _,
            label: ($) => `cell ${$.join(", ")}`,
            onPick: ($) => o({ q: ue({ ...E(t.q), node: i.name, coords: $.join(",") }) })
          }
        ),
        (!y || y === "preview") && !w && /* @__PURE__ */ r(Qt, { stages: e })
      ] }),
      /* @__PURE__ */ r("figcaption", { "data-stage": y ?? "none", children: [
        /* @__PURE__ */ r("b", { children: L }),
        " ",
        /* @__PURE__ */ r("span", { children: [
          g?.gain !== void 0 && y !== "preview" && g.gain > 1.05 && `gain ${g.gain.toFixed(1)} · `,
          typeof g?.share == "number" && `share up to ${g.share.toFixed(2)} · `,
          g && `${g.seconds.toFixed(2)} s`
        ] })
      ] })
    ] }),
    w?.error && /* @__PURE__ */ r(O, { problem: w.error })
  ] });
}
function Vt(e, t, n) {
  return e ? t ? n : "working out who reads what …" : "";
}
function Qt({ stages: e }) {
  const t = e.final ?? e.preview, n = t ? t.state === "queued" ? "waiting …" : t.state === "working" ? `solving, step ${t.steps}` : "" : "asking …";
  return /* @__PURE__ */ r("div", { class: "progress", role: "status", children: n });
}
function Ve(e) {
  const { rows: t, columns: n } = e;
  if (!t || !n || t * n > 4096) return null;
  const o = e.weights ? Math.max(...e.weights, 1e-9) : 1, s = (i) => {
    const c = i.currentTarget.getBoundingClientRect(), d = Math.min(t - 1, Math.max(0, Math.floor((i.clientY - c.top) / c.height * t))), u = Math.min(n - 1, Math.max(0, Math.floor((i.clientX - c.left) / c.width * n)));
    return [d, u];
  };
  return /* @__PURE__ */ r(
    "svg",
    {
      class: `cells ${e.onPick ? "pick" : ""}`,
      viewBox: `0 0 ${n} ${t}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
      onPointerMove: (i) => {
        const [c, d] = s(i);
        e.onHover(c * n + d);
      },
      onPointerLeave: () => e.onHover(null),
      onClick: (i) => e.onPick?.(s(i)),
      children: [
        e.weights?.map((i, c) => {
          const d = Math.sqrt(i / o);
          return /* @__PURE__ */ r("rect", { class: "shade", x: c % n, y: Math.floor(c / n), width: 1, height: 1, "fill-opacity": (1 - d) * 0.82 }, c);
        }),
        e.marked?.map((i) => {
          const [c, d] = i.split(",").map(Number);
          return /* @__PURE__ */ r("rect", { class: "mark", x: d, y: c, width: 1, height: 1 }, i);
        })
      ]
    }
  );
}
function mt() {
  const { view: e, inputs: t } = T(), n = t.some((o) => o.sha === e.x);
  return I(n ? `/input/${e.m}/${e.x}.json` : null).data?.tokens ?? void 0;
}
const le = (e) => e.replace(/\n/g, "↵").trim() || "␣";
function Xt({ stages: e }) {
  const { view: t } = T(), n = mt(), o = ["final", "preview"].find((u) => e[u]?.state === "done"), s = o ? e[o].facts?.profile : void 0, i = Object.values(e).find((u) => u.state === "failed" && u.error), c = new Set(E(t.q).coords.split(";").filter(Boolean).map(Number)), d = s ? Math.max(...s, 1e-9) : 1;
  return /* @__PURE__ */ r("section", { class: "strip", "aria-label": "Source tokens", children: [
    /* @__PURE__ */ r("ol", { children: n?.map((u, l) => /* @__PURE__ */ r("li", { class: c.has(l) ? "asked" : "", title: s ? `${(100 * s[l]).toFixed(1)} % of the energy` : "", children: [
      /* @__PURE__ */ r("span", { class: "fill", style: { opacity: s ? 0.75 * (s[l] / d) : 0 } }),
      /* @__PURE__ */ r("b", { children: le(u) }),
      /* @__PURE__ */ r("small", { children: s ? `${(100 * s[l]).toFixed(0)} %` : "…" })
    ] }, l)) }),
    /* @__PURE__ */ r("p", { class: "note", children: o === "preview" ? "Preview: plain gradient, not the answer." : "Where the inverse of the framed tokens' state lies: share of its energy, token by token. Neither attention nor probability." }),
    i?.error && /* @__PURE__ */ r(O, { problem: i.error })
  ] });
}
function Yt() {
  const { view: e, model: t, set: n } = T(), o = mt(), { data: s, problem: i } = I(t ? M("tokens", { ...e, q: t.target }, "json") : null), c = H(t, e.q)?.name ?? E(e.q).node, d = Number(E(e.q).coords.split(";")[0] || 0);
  if (i) return /* @__PURE__ */ r(O, { problem: i });
  if (!s || !o) return /* @__PURE__ */ r("p", { class: "note", role: "status", children: "Reading out every layer …" });
  const u = s.rows.find((l) => l.node === c);
  return /* @__PURE__ */ r("div", { class: "tokens", children: [
    /* @__PURE__ */ r("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Layer by position", children: /* @__PURE__ */ r("table", { children: [
      /* @__PURE__ */ r("thead", { children: /* @__PURE__ */ r("tr", { children: [
        /* @__PURE__ */ r("th", { scope: "col", children: "layer" }),
        o.map((l, h) => /* @__PURE__ */ r("th", { scope: "col", children: le(l) }, h))
      ] }) }),
      /* @__PURE__ */ r("tbody", { children: [...s.rows].reverse().map((l) => /* @__PURE__ */ r("tr", { children: [
        /* @__PURE__ */ r("th", { scope: "row", children: /* @__PURE__ */ r("code", { children: l.node.replace(/^.*?(\d+)(\D*)$/, "$1$2") }) }),
        o.map((h, _) => /* @__PURE__ */ r("td", { children: /* @__PURE__ */ r(
          "button",
          {
            type: "button",
            class: l.node === c && _ === d ? "now" : "",
            "aria-label": `${l.node} at ${_}, going to ${l.next[_][0]}`,
            "data-query": `${l.node}@${_}`,
            onClick: () => n({ q: `${l.node}@${_}` }),
            children: [
              /* @__PURE__ */ r("span", { class: "fill", style: { opacity: 0.6 * l.odds[_][0] } }),
              /* @__PURE__ */ r("span", { children: le(l.next[_][0]) })
            ]
          }
        ) }, _))
      ] }, l.node)) })
    ] }) }),
    u && /* @__PURE__ */ r("section", { "aria-label": "Going to", children: [
      /* @__PURE__ */ r("h3", { children: [
        "Going to ",
        /* @__PURE__ */ r("small", { children: [
          "logit lens at ",
          u.node,
          ", position ",
          d
        ] })
      ] }),
      /* @__PURE__ */ r("ol", { children: u.next[d]?.map((l, h) => /* @__PURE__ */ r("li", { children: [
        /* @__PURE__ */ r("b", { children: le(l) }),
        " ",
        /* @__PURE__ */ r("small", { children: [
          (100 * u.odds[d][h]).toFixed(1),
          " %"
        ] })
      ] }, h)) }),
      /* @__PURE__ */ r("p", { class: "note", children: "The residual state after this layer, read out by the final norm and the unembedding as if the model ended here." })
    ] })
  ] });
}
const Zt = {
  follows: ["good", "The picture follows its target"],
  swapped: ["fair", "Another input's target gives nearly this picture"],
  alike: ["fair", "Follows its target, but its neighbours look alike"],
  "operating point": ["bad", "A picture of the operating point, not of the feature"],
  single: ["plain", "One number: a target can only scale its picture"]
};
function en({ stages: e }) {
  const { view: t, model: n, inputs: o } = T(), s = e.trust, i = s?.state === "done" ? s.facts : void 0, [c, d] = Zt[i?.verdict ?? ""] ?? ["wait", "Checking …"], u = e.final?.facts, l = o.find((_) => _.sha === i?.other)?.name, h = (_) => i && n?.picture ? M("trust", { ...t, q: i.query }, "png", { part: _ }) : null;
  return /* @__PURE__ */ r("aside", { class: `trust ${c}`, "aria-label": "Trust", children: [
    /* @__PURE__ */ r("h2", { children: "Trust" }),
    /* @__PURE__ */ r("p", { class: "verdict", role: "status", "data-verdict": i?.verdict ?? "", children: s?.state === "failed" ? "The controls could not be worked out." : d }),
    i?.verdict === "operating point" && /* @__PURE__ */ r("p", { class: "plain", children: "Random targets give nearly this picture. It shows what the model computes around this input, whatever the feature says." }),
    i?.verdict === "swapped" && /* @__PURE__ */ r("p", { class: "plain", children: "It changes with a random target, but hardly with another input's: what is seen is mostly this input's operating point." }),
    /* @__PURE__ */ r("dl", { children: [
      /* @__PURE__ */ r(ye, { name: "random target", value: i?.random, note: i && i.random === null ? "one number" : "near 0 is good", ready: !!i }),
      /* @__PURE__ */ r(ye, { name: l ? `${l}'s target` : "another input's target", value: i?.swapped, note: i && i.swapped === null ? "no other input" : "low is good", ready: !!i }),
      /* @__PURE__ */ r(ye, { name: "neighbouring queries", value: i?.neighbours, note: i && i.neighbours === null ? "none" : "low: selective", ready: !!i }),
      /* @__PURE__ */ r("div", { children: [
        /* @__PURE__ */ r("dt", { children: "zero target" }),
        /* @__PURE__ */ r("dd", { children: i ? i.zero === 0 ? "exactly zero" : `up to ${i.zero?.toExponential(1)}` : "…" })
      ] })
    ] }),
    n?.picture && /* @__PURE__ */ r("div", { class: "controls", children: [
      i?.random !== null && /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(R, { path: h("random"), alt: "What a random target gives", fresh: !0 }),
        /* @__PURE__ */ r("figcaption", { children: "random target" })
      ] }),
      i?.swapped !== null && /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(R, { path: h("swapped"), alt: "What another input's target gives", fresh: !0 }),
        /* @__PURE__ */ r("figcaption", { children: l ? `${l}'s target` : "swapped target" })
      ] })
    ] }),
    i?.sentence && /* @__PURE__ */ r("p", { class: "sentence", children: i.sentence }),
    /* @__PURE__ */ r("h3", { children: "This answer" }),
    /* @__PURE__ */ r("dl", { class: "small", children: [
      /* @__PURE__ */ r(ne, { name: "cosine with the input", value: u?.cosine?.toFixed(2) }),
      /* @__PURE__ */ r(ne, { name: "residual of the solve", value: u?.residual?.toFixed(3) }),
      /* @__PURE__ */ r(ne, { name: "steps", value: u?.steps !== void 0 ? u.steps === 0 ? "exact" : String(u.steps) : void 0 }),
      /* @__PURE__ */ r(ne, { name: "numbers asked for", value: i?.numbers?.toLocaleString("en") })
    ] })
  ] });
}
function ye({ name: e, value: t, note: n, ready: o }) {
  const s = typeof t == "number";
  return /* @__PURE__ */ r("div", { children: [
    /* @__PURE__ */ r("dt", { children: e }),
    /* @__PURE__ */ r("dd", { children: [
      /* @__PURE__ */ r("span", { class: "bar", "aria-hidden": "true", children: /* @__PURE__ */ r("span", { style: { width: `${s ? Math.min(1, Math.abs(t)) * 100 : 0}%` } }) }),
      /* @__PURE__ */ r("b", { children: s ? t.toFixed(2) : o ? "–" : "…" }),
      " ",
      /* @__PURE__ */ r("small", { children: n })
    ] })
  ] });
}
function ne({ name: e, value: t }) {
  return t === void 0 ? null : /* @__PURE__ */ r("div", { children: [
    /* @__PURE__ */ r("dt", { children: e }),
    /* @__PURE__ */ r("dd", { children: t })
  ] });
}
const tn = { grid: "Grid", compare: "Compare", decide: "Decide", tokens: "Tokens" };
function gt({ transport: e, start: t }) {
  const [n, o] = C([]), [s, i] = C([]), [c, d] = C(() => ze(t)), [u, l] = C(null), [h, _] = C(""), a = Be(async () => {
    const g = await Ce(e, "/api/inputs");
    return i(g), g;
  }, [e]);
  A(() => {
    Promise.all([Ce(e, "/api/models").then(o), a()]).catch((g) => l(ee(g)));
  }, [e]), A(() => {
    if (!e.page) return;
    const g = () => d(ze(location.hash));
    return addEventListener("hashchange", g), () => removeEventListener("hashchange", g);
  }, [e]);
  const p = Be((g, v = !1) => {
    d((f) => {
      const m = { ...f, ...g };
      return e.page && history[v ? "replaceState" : "pushState"](null, "", `#${pt(m)}`), m;
    });
  }, [e]), y = n.find((g) => g.id === c.m);
  A(() => {
    if (!n.length) return;
    const g = n.find((f) => f.id === c.m) ?? (c.m ? void 0 : n[0]);
    if (!g) return;
    const v = {};
    g.id !== c.m && (v.m = g.id), c.x || (v.x = s.find((f) => f.lenses.includes(g.id))?.sha ?? ""), c.q || (v.q = nn(g)), v.x === "" && delete v.x, Object.keys(v).length && p(v, !0);
  }, [n, s, c.m, c.x, c.q]);
  const w = Y(() => ({ transport: e, models: n, inputs: s, view: c, model: y, set: p, refresh: a, say: _ }), [e, n, s, c, y, p, a]);
  return u ? /* @__PURE__ */ r("main", { class: "alone", children: [
    /* @__PURE__ */ r("h1", { children: "sgfi explorer" }),
    /* @__PURE__ */ r(O, { problem: u })
  ] }) : /* @__PURE__ */ r(ht.Provider, { value: w, children: /* @__PURE__ */ r(rn, { said: h }) });
}
function nn(e) {
  const t = e.nodes[Math.floor(e.nodes.length / 3)] ?? e.nodes[e.nodes.length - 1];
  return e.text ? `${t.name}@1` : t.name;
}
function rn({ said: e }) {
  const t = T(), { view: n, model: o, set: s, inputs: i } = t, [c, d] = C(!1), [u, l] = C(!1), [h, _] = C(!1), a = fe(null), p = i.some((v) => v.sha === n.x), y = o && p && n.q ? { lens: n.m, input: n.x, query: n.q, stages: ["preview", "final", "trust", ...n.s ? ["share"] : []] } : null, w = Z(y);
  cn(t, { open: () => d((v) => !v), help: () => l((v) => !v), take: () => _((v) => !v), query: () => a.current?.focus() });
  const g = H(o, n.q);
  return /* @__PURE__ */ r("div", { class: "workbench", children: [
    /* @__PURE__ */ r("a", { class: "skip", href: "#result", onClick: (v) => {
      v.preventDefault(), document.getElementById("result")?.focus();
    }, children: "Skip to the answer" }),
    /* @__PURE__ */ r("header", { children: [
      /* @__PURE__ */ r("h1", { children: "sgfi" }),
      /* @__PURE__ */ r("button", { type: "button", class: "where", "aria-expanded": c, onClick: () => d(!c), children: [
        /* @__PURE__ */ r("b", { children: o?.title ?? "model" }),
        " ",
        /* @__PURE__ */ r("span", { children: i.find((v) => v.sha === n.x)?.name ?? "input" })
      ] }),
      /* @__PURE__ */ r(sn, { box: a }),
      /* @__PURE__ */ r("div", { class: "switches", children: [
        /* @__PURE__ */ r("button", { type: "button", "aria-pressed": n.s, title: "Fade what the feature does not determine (s)", onClick: () => s({ s: !n.s }), children: "share" }),
        /* @__PURE__ */ r("button", { type: "button", "aria-pressed": n.w === "signed", title: "Signed colours: red above zero, blue below (w)", onClick: () => s({ w: n.w === "signed" ? "natural" : "signed" }), children: "signed" }),
        /* @__PURE__ */ r(ln, {}),
        /* @__PURE__ */ r("button", { type: "button", "aria-expanded": h, title: "Export what is shown (e)", onClick: () => _(!h), children: "export" }),
        /* @__PURE__ */ r("button", { type: "button", "aria-expanded": u, title: "Keyboard (?)", onClick: () => l(!u), children: "?" })
      ] })
    ] }),
    u && /* @__PURE__ */ r(an, {}),
    h && /* @__PURE__ */ r(Dt, {}),
    c && /* @__PURE__ */ r(Jt, { close: () => d(!1) }),
    n.m && t.models.length > 0 && !o && /* @__PURE__ */ r(O, { problem: { expected: "an open model", got: n.m, todo: "This link is for a model that is not open here: name it when you start sgfi explore." } }),
    n.x && i.length > 0 && !p && /* @__PURE__ */ r(O, { problem: { expected: "a known input", got: n.x.slice(0, 12), todo: "This link is for an input that is not on this computer. Add it, or choose another." } }),
    /* @__PURE__ */ r("div", { class: "columns", children: [
      /* @__PURE__ */ r(zt, {}),
      /* @__PURE__ */ r("main", { id: "result", tabIndex: -1, children: [
        /* @__PURE__ */ r("h2", { class: "query", children: [
          /* @__PURE__ */ r("code", { children: n.q || "…" }),
          " ",
          g && /* @__PURE__ */ r("small", { children: [
            "of ",
            ft(g)
          ] })
        ] }),
        o?.picture && p && /* @__PURE__ */ r(Gt, { stages: w }),
        o?.text && p && /* @__PURE__ */ r(Xt, { stages: w }),
        p && /* @__PURE__ */ r(on, {})
      ] }),
      /* @__PURE__ */ r(en, { stages: w })
    ] }),
    /* @__PURE__ */ r("div", { class: "said", role: "status", "aria-live": "polite", children: e })
  ] });
}
function on() {
  const { view: e, set: t, model: n } = T(), o = n?.text ? ["tokens", "grid"] : ["grid", "compare", "decide"], s = o.find((i) => i === e.v) ?? o[0];
  return /* @__PURE__ */ r("section", { class: "tabs", children: [
    /* @__PURE__ */ r("div", { role: "tablist", "aria-label": "Below the pictures", children: o.map((i) => /* @__PURE__ */ r("button", { type: "button", role: "tab", id: `tab-${i}`, "aria-selected": s === i, "aria-controls": "tab-body", onClick: () => t({ v: i }), children: tn[i] }, i)) }),
    /* @__PURE__ */ r("div", { role: "tabpanel", id: "tab-body", "aria-labelledby": `tab-${s}`, children: [
      n && s === "grid" && /* @__PURE__ */ r(It, {}),
      n && s === "compare" && /* @__PURE__ */ r(Et, {}),
      n && s === "decide" && /* @__PURE__ */ r(Ut, {}),
      n && s === "tokens" && /* @__PURE__ */ r(Yt, {})
    ] })
  ] });
}
function sn({ box: e }) {
  const { view: t, set: n } = T(), [o, s] = C(t.q);
  return A(() => s(t.q), [t.q]), /* @__PURE__ */ r("form", { class: "querybox", onSubmit: (i) => {
    i.preventDefault(), n({ q: o.trim() }), e.current?.blur();
  }, children: [
    /* @__PURE__ */ r("label", { children: [
      /* @__PURE__ */ r("span", { class: "hidden", children: "Query" }),
      /* @__PURE__ */ r(
        "input",
        {
          ref: e,
          value: o,
          spellcheck: !1,
          autocomplete: "off",
          placeholder: "layer3.1.add:17@2,3",
          onInput: (i) => s(i.currentTarget.value),
          onKeyDown: (i) => {
            i.key === "Escape" && (s(t.q), i.currentTarget.blur());
          }
        }
      )
    ] }),
    /* @__PURE__ */ r("button", { type: "submit", children: "Ask" })
  ] });
}
function ln() {
  const { transport: e, say: t } = T();
  if (!e.page) return null;
  const n = async () => {
    try {
      await navigator.clipboard.writeText(location.href), t("Link copied");
    } catch {
      t("Copy the address of this page");
    }
  };
  return /* @__PURE__ */ r("button", { type: "button", onClick: () => void n(), title: "Copy the link to exactly this view", children: "link" });
}
function an() {
  return /* @__PURE__ */ r("section", { class: "help", "aria-label": "Keyboard", children: [
    /* @__PURE__ */ r("dl", { children: [
      ["↑ ↓", "shallower, deeper tensor"],
      ["← →", "previous, next channel (or cell)"],
      ["[ ]", "previous, next input"],
      ["/", "write a query"],
      ["o", "open models and inputs"],
      ["s", "fade by share"],
      ["w", "signed colours"],
      ["g c d", "grid, compare, decide"],
      ["e", "export"],
      ["?", "this list"]
    ].map(([t, n]) => /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("dt", { children: /* @__PURE__ */ r("kbd", { children: t }) }),
      /* @__PURE__ */ r("dd", { children: n })
    ] }, t)) }),
    /* @__PURE__ */ r("p", { children: [
      "A query is ",
      /* @__PURE__ */ r("code", { children: "tensor[:channels][@cells]" }),
      ", such as ",
      /* @__PURE__ */ r("code", { children: "layer3.1.add:17@2,3" }),
      ". Click a cell of the inverse to ask about it alone."
    ] })
  ] });
}
function cn(e, t) {
  const n = fe({ session: e, act: t });
  n.current = { session: e, act: t }, A(() => {
    if (!e.transport.page) return;
    const o = (s) => {
      const i = s.target;
      if (s.ctrlKey || s.metaKey || s.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(i.tagName)) return;
      const { session: { view: c, model: d, set: u, inputs: l }, act: h } = n.current, _ = H(d, c.q), a = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1, "[": -1, "]": 1 }[s.key] ?? 0;
      if (d && _ && (s.key === "ArrowUp" || s.key === "ArrowDown")) {
        const p = d.nodes[d.nodes.indexOf(_) + a];
        p && u({ q: _t(c.q, _, p) });
      } else if (_ && (s.key === "ArrowLeft" || s.key === "ArrowRight")) u({ q: Rt(c.q, _, a) });
      else if (s.key === "[" || s.key === "]") {
        const p = l.filter((w) => d && w.lenses.includes(d.id)), y = p.findIndex((w) => w.sha === c.x);
        p.length && u({ x: p[(y + a + p.length) % p.length].sha });
      } else if (s.key === "/") h.query();
      else if (s.key === "o") h.open();
      else if (s.key === "s") u({ s: !c.s });
      else if (s.key === "w") u({ w: c.w === "signed" ? "natural" : "signed" });
      else if (s.key === "?") h.help();
      else if (s.key === "e") h.take();
      else if (!d?.text && "gcd".includes(s.key)) u({ v: { g: "grid", c: "compare", d: "decide" }[s.key] });
      else return;
      s.preventDefault();
    };
    return addEventListener("keydown", o), () => removeEventListener("keydown", o);
  }, [e.transport]);
}
const Qe = typeof document > "u" ? null : document.getElementById("sgfi-explorer");
if (Qe) {
  const e = new URLSearchParams(location.search).get("token") ?? "";
  $e(/* @__PURE__ */ r(gt, { transport: new At(e), start: location.hash }), Qe);
}
function dn({ model: e, el: t }) {
  const n = new Nt(e);
  return t.classList.add("sgfi-widget"), $e(/* @__PURE__ */ r(gt, { transport: n, start: e.get("start") }), t), () => {
    $e(null, t), n.close();
  };
}
const un = { render: dn };
export {
  un as default
};
